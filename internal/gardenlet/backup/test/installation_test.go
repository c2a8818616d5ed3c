package test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/test/env"
)

// The garden may lack objects of the seed, as after a restore from a backup.
func TestExtensionsStayAsLongAsObjectsInTheSeedNeedThem(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	registration := w.offer()
	other := env.Name("other-")
	registration.Spec.Resources[0].Type = other
	registration.Spec.Resources = append(registration.Spec.Resources,
		corev1beta1.ControllerResource{Kind: "SelfHostedShootExposure", Type: other})
	w.must(w.Client.Update(w.ctx, registration))
	i := &corev1beta1.ControllerInstallation{
		ObjectMeta: metav1.ObjectMeta{
			Name: env.Name("i-"), Finalizers: []string{"core.gardener.cloud/controllerinstallation"},
		},
		Spec: corev1beta1.ControllerInstallationSpec{
			RegistrationRef: corev1.ObjectReference{Name: registration.Name},
			SeedRef:         &corev1.ObjectReference{Name: s.object.Name},
		},
	}
	bucket := &extensionsv1alpha1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("b-")},
		Spec: extensionsv1alpha1.BackupBucketSpec{
			DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: other}, Region: "local",
			SecretRef: corev1.SecretReference{Namespace: "garden", Name: "x"},
		}}
	w.Create(t, i, bucket)
	w.must(w.Client.Delete(w.ctx, i))
	r := &controllerinstallation.Reconciler{
		Garden: w.Client, Seed: w.Client, Clock: clock, SeedName: s.object.Name, Charts: &oci.Puller{Clock: clock},
	}
	step := func() {
		t.Helper()
		w.read(i)
		res, err := r.Reconcile(w.ctx, i)
		w.must(err)
		w.read(i)
		if !gone(i) && slices.Contains(i.Finalizers, "core.gardener.cloud/controllerinstallation") && res.RequeueAfter == 0 {
			t.Error("the installation is not created again")
		}
	}
	step()
	c := corev1beta1.FindCondition(i.Status.Conditions, corev1beta1.ControllerInstallationRequired)
	if gone(i) || c == nil || c.Status != corev1beta1.ConditionTrue {
		t.Fatalf("the extension is removed although an object needs it: %+v", c)
	}
	w.must(w.Client.Delete(w.ctx, bucket))
	step()
	if !gone(i) {
		t.Errorf("the installation stays: %+v", i.Status.Conditions)
	}
}
