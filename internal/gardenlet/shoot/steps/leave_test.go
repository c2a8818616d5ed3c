package steps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// The extension deletes the machine of a Bastion that a dead seed has left, and needs credentials for it. The
// Infrastructure belongs to the other seed.
func TestLeftoverBastions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "here", Name: name, Finalizers: []string{"hortus.dev/held"}}
	}
	bastion := &extensionsv1alpha1.Bastion{ObjectMeta: meta("b")}
	infrastructure := &extensionsv1alpha1.Infrastructure{ObjectMeta: meta("i")}
	secret := &corev1.Secret{ObjectMeta: meta("cloudprovider")}
	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(bastion, infrastructure, secret).Build()
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Provider.Workers = make([]corev1beta1.Worker, 1)
	clock := clocktesting.NewFakePassiveClock(now)
	pass := func() {
		flow.Run(t.Context(), RemoveLeftover(), &Scope{
			Values: Values{Namespace: "here", Shoot: shoot}, Seed: seed, SeedApplied: &kube.ApplyCache{}, Clock: clock,
		}, flow.Options{Clock: clock})
	}
	exists := func(o client.Object) bool {
		t.Helper()
		found, err := kube.Exists(t.Context(), seed, o)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	pass()
	if !exists(bastion) || bastion.DeletionTimestamp == nil || !exists(secret) || secret.DeletionTimestamp != nil {
		t.Fatalf("the Bastion is %+v, the credentials are %+v; want only the Bastion in deletion", bastion, secret)
	}
	bastion.Finalizers = nil // As the extension does.
	if err := seed.Update(t.Context(), bastion); err != nil {
		t.Fatal(err)
	}
	pass()
	if exists(secret) || exists(infrastructure) {
		t.Errorf("without Bastions, there are the credentials %+v and the Infrastructure %+v", secret, infrastructure)
	}
}
