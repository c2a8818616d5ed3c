package shoot

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
)

// TestRotationContinuesAfterTheLastManualPool: whichever write fails, the rotation that has waited for the pool is
// continued by a reconciliation.
func TestRotationContinuesAfterTheLastManualPool(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, extensionsv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "one"}}
	shoot.Spec.Kubernetes.Version = "1.36.3"
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{
		Name: "pool", UpdateStrategy: ptr.To(corev1beta1.ManualInPlaceUpdate),
		Machine: corev1beta1.Machine{Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1")}},
	}}
	shoot.Status.TechnicalID = "shoot--dev--one"
	shoot.Status.LastOperation = &corev1beta1.LastOperation{State: corev1beta1.LastOperationStateSucceeded}
	shoot.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
		CertificateAuthorities: &corev1beta1.CARotation{Phase: corev1beta1.RotationPreparing},
	}}
	setPending(shoot, nil, []string{"pool"})
	hash, err := poolhash.InPlace(poolhash.FromShoot(shoot, &shoot.Spec.Provider.Workers[0]))
	if err != nil {
		t.Fatal(err)
	}
	worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--one", Name: "one"}}
	worker.Status.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdatesWorkerStatus{
		WorkerPoolToHashMap: map[string]string{"pool": hash},
	}
	for failing := range 3 {
		writes := 0
		write := func() error {
			if writes++; writes == failing {
				return errors.New("stopped")
			}
			return nil
		}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(shoot.DeepCopy(), worker.DeepCopy()).
			WithStatusSubresource(shoot).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(
				ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
			) error {
				if err := write(); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, options...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				if err := write(); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, options...)
			},
		}).Build()
		r, got := &Reconciler{Garden: c, Seed: c}, &corev1beta1.Shoot{}
		for range 2 { // A controller that has failed tries again.
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(shoot), got); err != nil {
				t.Fatal(err)
			}
			_ = r.updateManualPools(t.Context(), got) // Whatever failed, the next attempt makes up for it.
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(shoot), got); err != nil {
			t.Fatal(err)
		}
		if got.Status.InPlaceUpdates != nil || !slices.Equal(operationsOf(got), []string{corev1beta1.OperationReconcile}) {
			t.Errorf("write %d fails: pending %+v, operations %q", failing, got.Status.InPlaceUpdates, operationsOf(got))
		}
	}
}
