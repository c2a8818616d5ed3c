package simulation

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/internal/gardenlet/gardenaccess"
	"hortus.dev/hortus/internal/resourcemanager/token"
	"hortus.dev/hortus/test/sim"
)

// An extension that requests a token of the garden has one, and another one when an operator requests that.
func TestSimulateGardenAccess(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		garden, cluster := w.Cluster("garden", sim.Scheme()), w.Cluster("seed", sim.Scheme())
		garden.AddNamespaces("seed-a")
		extension := named[corev1.Namespace]("", "extension-x")
		extension.Labels = map[string]string{corev1beta1.LabelRole: corev1beta1.RoleExtension}
		cluster.AddNamespaces(controlPlane)
		cluster.Add(extension)
		w.Process("gardenlet", garden, func(p *sim.Process) error {
			seed := p.In(cluster)
			r := &token.Reconciler{
				Source: seed.GetClient(), Target: p.In(garden).Direct(), Clock: w.Clock(), Jitter: func() float64 { return 0.5 },
				Class: resourcesv1alpha1.ClassGarden, Confined: &token.Confinement{
					Namespace: "seed-a", Events: seed.GetEventRecorder("gardenlet"),
					Labels: (&controllerinstallation.TokenPolicy{
						Garden: p.In(garden).Direct(), Seed: seed.Direct(), SeedName: "a",
					}).Labels,
				},
			}
			if err := r.AddToManager(p, seed.GetCache()); err != nil {
				return err
			}
			return (&gardenaccess.Reconciler{
				Garden: p.In(garden).Direct(), Seed: seed.Direct(), SeedName: "a",
			}).AddToManager(p)
		})
		installation := named[corev1beta1.ControllerInstallation]("", "x")
		installation.Spec.RegistrationRef.Name = "r"
		installation.Spec.SeedRef = &corev1.ObjectReference{Name: "a"}
		garden.Add(named[corev1beta1.Seed]("", "a"), installation)
		asking := func(namespace, name, account string) *corev1.Secret {
			s := named[corev1.Secret](namespace, name)
			s.Labels = map[string]string{
				resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor,
				resourcesv1alpha1.LabelClass:   resourcesv1alpha1.ClassGarden,
			}
			s.Annotations = map[string]string{
				resourcesv1alpha1.AnnotationServiceAccountName:      account,
				resourcesv1alpha1.AnnotationServiceAccountNamespace: "garden",
			}
			return s
		}
		w.Change("request a token", cluster, create(asking("extension-x", "s", "extension-x")))
		w.Change("request the token of another", cluster, create(asking("extension-x", "other", "extension-y")))
		w.Change("request a token elsewhere", cluster, create(asking(controlPlane, "elsewhere", "extension-x")))

		w.Always("only the account of the extension is made", func() error {
			accounts := &corev1.ServiceAccountList{}
			if err := garden.List(context.Background(), accounts); err != nil {
				return err
			}
			for _, a := range accounts.Items {
				if a.Namespace != "seed-a" || a.Name != "extension-x" ||
					a.Labels[resourcesv1alpha1.LabelRequestedIn] != "extension-x" {
					return is(false, "there is %s", client.ObjectKeyFromObject(&a))
				}
			}
			return nil
		})
		current := func() string {
			s := asking("extension-x", "s", "")
			cluster.Exists(s)
			return string(s.Data["token"])
		}
		w.Faults(60)
		first := ""
		w.Eventually(50, "there is a token", func() error {
			first = current()
			return is(first != "", "there is none")
		})
		w.Change("renew all tokens", garden, func(context.Context, client.Client) error {
			seed := named[corev1beta1.Seed]("", "a")
			return garden.Edit(seed, func() {
				seed.Annotations = map[string]string{
					corev1beta1.AnnotationOperation: corev1beta1.OperationRenewGardenAccessSecrets,
				}
			})
		})
		w.Faults(60)
		w.Eventually(50, "there is another token, and the operation has ended", func() error {
			seed := named[corev1beta1.Seed]("", "a")
			garden.Exists(seed)
			now := current()
			return is(now != "" && now != first && len(seed.Annotations) == 0, "a token: %t, another one: %t, annotations %v",
				now != "", now != first, seed.Annotations)
		})
	})
}
