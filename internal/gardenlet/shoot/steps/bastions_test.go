package steps

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// Bastions stay while nodes take SSH connections, and are gone before a deletion or a move continues.
func TestBastionsAreRemoved(t *testing.T) {
	for name, tc := range map[string]struct {
		run     func(context.Context, *Scope) (flow.Outcome, error)
		ssh     bool
		removed bool
	}{
		"SSH access":            {Bastions.Ensure, true, false},
		"the end of access":     {Bastions.Ensure, false, true},
		"a deletion":            {Bastions.Remove, true, true},
		"a move":                {BastionsRemoved.Ensure, true, true},
		"a move without access": {BastionsRemoved.Ensure, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			named := func(namespace string) *extensionsv1alpha1.Bastion {
				return &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "b", Finalizers: []string{"extensions.gardener.cloud/bastion"},
				}}
			}
			seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(named("here"), named("elsewhere")).Build()
			shoot := &corev1beta1.Shoot{}
			shoot.Spec.Provider.Workers = make([]corev1beta1.Worker, 1)
			shoot.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{
				SSHAccess: &corev1beta1.SSHAccess{Enabled: tc.ssh},
			}
			scope := &Scope{
				Values: Values{Namespace: "here", Shoot: shoot}, Seed: seed, Clock: clocktesting.NewFakePassiveClock(now),
			}
			outcome, err := tc.run(t.Context(), scope)
			if err != nil || outcome.IsDone() == tc.removed {
				t.Errorf("while there is a bastion: %+v, %v", outcome, err)
			}
			b := named("here")
			if err := seed.Get(t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
				t.Fatal(err)
			}
			if (b.DeletionTimestamp != nil) != tc.removed {
				t.Errorf("the bastion is being deleted: %t, want %t", b.DeletionTimestamp != nil, tc.removed)
			}
			b.Finalizers = nil // As the extension does.
			if err := seed.Update(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if outcome, err = tc.run(t.Context(), scope); err != nil || !outcome.IsDone() {
				t.Errorf("without a bastion: %+v, %v", outcome, err)
			}
			other := named("elsewhere")
			if err := seed.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil ||
				other.DeletionTimestamp != nil {
				t.Errorf("the bastion of another Shoot is %+v, %v", other, err)
			}
		})
	}
}
