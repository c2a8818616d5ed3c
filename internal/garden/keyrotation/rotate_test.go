package keyrotation

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestConflictIsNoRotation: another client changes the Secret when a rotation begins. The rotation begins nevertheless,
// and does not count as complete.
func TestConflictIsNoRotation(t *testing.T) {
	const namespace = "garden"
	secret := InitialSecret(namespace, "first")
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: deploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": deploymentName}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRevision: "0"}},
				Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: volumeName, VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: SecretName}}}}},
			},
		},
		Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	garden := fake.NewClientBuilder().WithObjects(secret, d).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if tries++; tries == 1 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.GetName(),
					errors.New("another client has labelled it"))
			}
			defer cancel() // The rest is irrelevant.
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	r := &Rotation{Garden: garden, Clock: testclock.NewFakeClock(time.Now()), Out: io.Discard, Namespace: namespace}
	if err := r.Run(ctx); err == nil {
		t.Error("the rotation is complete though its end was not reached")
	}
	if err := garden.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	now, err := readSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	if len(now.config.Keys) != 2 {
		t.Errorf("after %d writes there are %d keys, want two", tries, len(now.config.Keys))
	}
}
