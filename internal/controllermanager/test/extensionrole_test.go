package test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/extensionrole"
	"hortus.dev/hortus/test/sim"
)

// A role of an operator is bound to the selected extensions, in the seeds that have them, as long as it has its label.
func TestSimulateExtensionRoles(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&extensionrole.Reconciler{Garden: p.GetClient(), Events: p.GetEventRecorder("test")}).AddToManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		garden.AddNamespaces("seed-a", "seed-b")
		role := func() *rbacv1.ClusterRole {
			r := named[rbacv1.ClusterRole]("", "reviews")
			r.Labels = map[string]string{extensionrole.LabelCustom: "true"}
			r.Annotations = map[string]string{extensionrole.AnnotationSelector: selecting("dns")}
			return r
		}
		account := func(namespace, name, registration string) *corev1.ServiceAccount {
			a := named[corev1.ServiceAccount](namespace, name)
			a.Labels = map[string]string{
				"controllerregistration.core.gardener.cloud/name": registration, "hortus.dev/requested-in": name,
			}
			return a
		}
		installation := func(registration, seed string) *corev1beta1.ControllerInstallation {
			i := named[corev1beta1.ControllerInstallation]("", registration+"-"+seed)
			i.Spec.RegistrationRef.Name, i.Spec.SeedRef = registration, &corev1.ObjectReference{Name: seed}
			return i
		}
		garden.Add(installation("dns", "a"), account("seed-b", "extension-forged", "dns"),
			account("seed-a", "extension-net-a", "net"))
		binding := named[rbacv1.ClusterRoleBinding]("", "gardener.cloud:extensions:reviews")
		bound := func() []string {
			current := binding.DeepCopy()
			if !garden.Exists(current) {
				return nil
			}
			out := []string{}
			for _, s := range current.Subjects {
				out = append(out, s.Namespace+"/"+s.Name)
			}
			return out
		}
		w.Always("an account in a seed without the extension gets nothing", func() error {
			return is(!slices.Contains(bound(), "seed-b/extension-forged") &&
				!slices.Contains(bound(), "seed-a/extension-net-a"), "bound: %v", bound())
		})
		w.Change("make the role", garden, create(role()))
		w.Change("make an account", garden, create(account("seed-a", "extension-dns-a", "dns")))
		w.Change("make another account", garden, create(account("seed-a", "extension-dns-more", "dns")))
		w.Faults(60)
		w.Eventually(50, "the role is bound to both", func() error {
			return is(slices.Equal(bound(), []string{"seed-a/extension-dns-a", "seed-a/extension-dns-more"}), "%v", bound())
		})
		w.Change("delete an account", garden, remove(account("seed-a", "extension-dns-more", "dns")))
		w.Change("delete the binding", garden, remove(binding.DeepCopy()))
		w.Faults(60)
		w.Eventually(50, "the role is bound to the other", func() error {
			return is(slices.Equal(bound(), []string{"seed-a/extension-dns-a"}), "%v", bound())
		})
		w.Change("remove the label", garden, func(context.Context, client.Client) error {
			r := role()
			return garden.Edit(r, func() { r.Labels = nil })
		})
		w.Faults(60)
		w.Eventually(50, "the role is not bound", func() error { return is(bound() == nil, "%v", bound()) })
	})
}

func selecting(registration string) string {
	return fmt.Sprintf(`{"matchLabels":{"controllerregistration.core.gardener.cloud/name":%q}}`, registration)
}
