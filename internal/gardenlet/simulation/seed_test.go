package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/chart"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/internal/gardenlet/seedextension"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/sim"
)

// Extensions of the seed follow its spec, and those of others are left alone.
func TestSimulateExtensionsOfTheSeed(t *testing.T) {
	const kind = extensionsv1alpha1.ExtensionKind
	sim.Run(t, func(w *sim.World) {
		garden, cluster := w.Cluster("garden", sim.Scheme()), w.Cluster("seed", sim.Scheme())
		cloud, now := newProvider(w), newTicking(w)
		cluster.AddNamespaces("garden")
		w.Process("gardenlet", garden, func(p *sim.Process) error {
			return (&seedextension.Reconciler{
				Garden: p.In(garden).Direct(), Seed: p.In(cluster).Direct(), Clock: now, SeedName: "a",
			}).AddToManager(p, p.In(cluster))
		})
		w.Process("provider", cluster, func(p *sim.Process) error {
			for _, name := range []string{"always", "sometimes"} {
				k := keeper[*extensionsv1alpha1.Extension]{
					provider: cloud, cloud: p.In(cloud.cloud).Direct(), kind: kind,
					content: func(_ context.Context, e *extensionsv1alpha1.Extension) (string, error) {
						if e.Spec.ProviderConfig == nil {
							return "", nil
						}
						return string(e.Spec.ProviderConfig.Raw), nil
					},
				}
				if err := k.add(p, &extensionsv1alpha1.Extension{}, func(r *extension.Reconciler[*extensionsv1alpha1.Extension]) {
					r.Type, r.FinalizerSuffix = name, name
					r.Classes = []extensionsv1alpha1.Class{extensionsv1alpha1.ClassSeed}
				}); err != nil {
					return err
				}
			}
			return nil
		})
		offer := func(name string) *corev1beta1.ControllerRegistration {
			r := named[corev1beta1.ControllerRegistration]("", name)
			r.Spec.Resources = []corev1beta1.ControllerResource{{
				Kind: kind, Type: name, ClusterCompatibility: []corev1beta1.ClusterType{corev1beta1.ClusterTypeSeed},
				AutoEnable: []corev1beta1.ClusterType{corev1beta1.ClusterTypeSeed},
			}}
			return r
		}
		seed := func() *corev1beta1.Seed { return named[corev1beta1.Seed]("", "a") }
		started := seed()
		started.Finalizers = []string{"example.com/seed"} // That of the controller of Seeds, which waits for extensions.
		others := named[extensionsv1alpha1.Extension]("garden", "others")
		others.Spec.Type, others.Spec.Class = "always", new(extensionsv1alpha1.ClassGarden)
		garden.Add(started, offer("always"))
		cluster.Add(others)

		edit := func(extensions ...corev1beta1.Extension) change {
			return func(context.Context, client.Client) error {
				s := seed()
				return garden.Edit(s, func() { s.Spec.Extensions = extensions })
			}
		}
		configured := func(name, config string) corev1beta1.Extension {
			return corev1beta1.Extension{Type: name, ProviderConfig: &runtime.RawExtension{Raw: []byte(config)}}
		}
		w.Change("offer another", garden, create(offer("sometimes")))
		w.Change("configure it", garden, edit(configured("sometimes", `{"version":1}`)))
		w.Change("configure both", garden, edit(
			configured("sometimes", `{"version":2}`), configured("always", `{"version":1}`)))
		w.Change("disable one", garden, edit(corev1beta1.Extension{Type: "sometimes", Disabled: new(true)}))
		w.Change("enable it again", garden, edit(
			configured("sometimes", `{"version":3}`), configured("always", `{"version":2}`)))
		w.Change("withdraw the offer", garden, remove(offer("sometimes")))
		w.Change("offer it again", garden, create(offer("sometimes")))
		w.Change("configure both again", garden, edit(
			configured("sometimes", `{"version":4}`), configured("always", `{"version":3}`)))
		w.Overlap()

		kept, leaving := false, false
		w.Always("an extension that is always wanted stays", func() error {
			exists := cloud.cloud.Exists(inCloud(kind, "always"))
			kept = kept || exists
			return is(!kept || exists || leaving, "it is gone")
		})
		w.Always("Extensions of others stay", func() error {
			return is(cluster.Exists(others) && others.DeletionTimestamp == nil && len(others.Annotations) == 0, "%+v", others)
		})
		content := func(name string) string {
			o := inCloud(kind, name)
			cloud.cloud.Exists(o)
			return o.Data["content"]
		}
		w.Faults(250)
		cloud.faulty = false
		w.Eventually(200, "both are as configured", func() error {
			return is(content("always") == `{"version":3}` && content("sometimes") == `{"version":4}`, "%s, %s",
				content("always"), content("sometimes"))
		})
		cloud.faulty = true
		w.Change("delete the seed", garden, func(context.Context, client.Client) error {
			leaving = true
			return garden.Delete(context.Background(), seed())
		})
		w.Faults(50)
		cloud.faulty = false
		w.Eventually(200, "they are gone", func() error {
			if err := cloud.cloud.Gone(inCloud(kind, "always"), inCloud(kind, "sometimes")); err != nil {
				return err
			}
			return cluster.Gone(named[extensionsv1alpha1.Extension]("garden", "always"),
				named[extensionsv1alpha1.Extension]("garden", "sometimes"))
		})
	})
}

// chartOf is a chart with one object, which has a value of the deployment.
func chartOf(t *testing.T) []byte {
	t.Helper()
	archive, err := chart.Archive(fstest.MapFS{
		"x/Chart.yaml":  {Data: []byte("apiVersion: v2\nname: x\nversion: 0.1.0\n")},
		"x/values.yaml": {Data: []byte("value: none\n")},
		"x/templates/object.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\n" +
			"metadata: {name: x, namespace: {{ .Release.Namespace }}}\ndata: {value: {{ .Values.value }}}\n")},
	}, "x", "x")
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// An extension is installed as its deployment says, and stays as long as an object in the seed needs it.
func TestSimulateControllerInstallations(t *testing.T) {
	archive := chartOf(t)
	sim.Run(t, func(w *sim.World) {
		garden, cluster := w.Cluster("garden", sim.Scheme()), w.Cluster("seed", sim.Scheme())
		cluster.AddNamespaces("garden")
		w.Process("gardenlet", garden, func(p *sim.Process) error {
			return (&controllerinstallation.Reconciler{
				Garden: p.In(garden).Direct(), Seed: p.In(cluster).Direct(), Clock: w.Clock(),
				SeedName: "a", GardenIdentity: identityOfGarden, Charts: &oci.Puller{Clock: w.Clock()},
				Capabilities: func(context.Context) (chart.Capabilities, error) { return chart.Capabilities{}, nil },
			}).AddToManager(p, p.In(cluster), 1)
		})
		installation := func() *corev1beta1.ControllerInstallation {
			i := named[corev1beta1.ControllerInstallation]("", "i")
			i.Spec.RegistrationRef.Name, i.Spec.SeedRef = "r", &corev1.ObjectReference{Name: "a"}
			i.Spec.DeploymentRef = &corev1.ObjectReference{Name: "d"}
			return i
		}
		deployment := func(value int) *corev1v1.ControllerDeployment {
			d := named[corev1v1.ControllerDeployment]("", "d")
			d.Helm = &corev1v1.HelmControllerDeployment{RawChart: archive, Values: &runtime.RawExtension{
				Raw: fmt.Appendf(nil, `{"value":"v%d"}`, value)}}
			return d
		}
		registration := named[corev1beta1.ControllerRegistration]("", "r")
		registration.Spec.Resources = []corev1beta1.ControllerResource{{
			Kind: extensionsv1alpha1.NetworkKind, Type: "simulated",
		}}
		account := func(name, requestedIn string) *corev1.ServiceAccount {
			a := named[corev1.ServiceAccount]("seed-a", name)
			a.Labels = map[string]string{resourcesv1alpha1.LabelRequestedIn: requestedIn}
			return a
		}
		accounts := []client.Object{account("extension-i", "extension-i"), account("extension-i.more", "extension-i")}
		others := account("extension-other", "extension-other")
		garden.AddNamespaces("seed-a")
		garden.Add(named[corev1beta1.Seed]("", "a"), registration, accounts[0], accounts[1], others)
		network := named[extensionsv1alpha1.Network](controlPlane, "n")
		network.Spec.Type = "simulated"
		cluster.AddNamespaces(controlPlane)

		resource := func() *resourcesv1alpha1.ManagedResource {
			return named[resourcesv1alpha1.ManagedResource]("garden", "i")
		}
		secret := func() *corev1.Secret { return named[corev1.Secret]("garden", managedresource.SecretName("i")) }
		installed := named[corev1.ConfigMap]("garden", "installed") // What the resource-manager has applied.
		w.Actor("the resource-manager works", cluster, func(ctx context.Context, c client.Client) error {
			return manage(ctx, cluster, c, resource(), secret(), installed)
		})
		w.Change("deploy", garden, create(deployment(1)))
		w.Change("install", garden, create(installation()))
		w.Change("an object needs it", cluster, create(network.DeepCopy()))
		for value := 2; value <= 4; value++ {
			w.Change(fmt.Sprintf("deploy version %d", value), garden, func(context.Context, client.Client) error {
				d := deployment(value)
				return garden.Edit(d, func() { d.Helm = deployment(value).Helm })
			})
		}
		w.Overlap()

		ready := false
		w.Always("what is needed is not removed", func() error {
			mr := resource()
			exists := cluster.Exists(mr) && mr.DeletionTimestamp == nil
			ready = ready || exists
			return is(!ready || exists || !cluster.Exists(network.DeepCopy()), "the ManagedResource is gone")
		})
		w.Always("the finalizer stays while something is installed", func() error {
			i := installation()
			return is(!cluster.Exists(resource()) || garden.Exists(i) &&
				controllerutil.ContainsFinalizer(i, "core.gardener.cloud/controllerinstallation"), "finalizers %v", i.Finalizers)
		})
		reported := func(conditions ...corev1beta1.ConditionType) error {
			i := installation()
			garden.Exists(i)
			for _, kind := range conditions {
				if c := corev1beta1.FindCondition(i.Status.Conditions, kind); c == nil || c.Status != corev1beta1.ConditionTrue {
					return is(false, "condition %s is not true: %+v", kind, i.Status.Conditions)
				}
			}
			return nil
		}
		w.Faults(150)
		w.Eventually(100, "the newest version is installed", func() error {
			current := installed.DeepCopy()
			cluster.Exists(current)
			if objects := string(current.BinaryData["objects"]); !strings.Contains(objects, "value: v4") {
				return is(false, "installed: %s", objects)
			}
			return reported("Valid", "Installed", "Healthy", corev1beta1.ControllerInstallationRequired)
		})
		w.Change("uninstall", garden, remove(installation()))
		w.Faults(50)
		w.Eventually(100, "it is still needed", func() error {
			return reported("Installed", corev1beta1.ControllerInstallationRequired)
		})
		w.Change("nothing needs it", cluster, remove(network.DeepCopy()))
		w.Faults(50)
		w.Eventually(100, "everything is gone", func() error {
			if err := garden.Gone(installation()); err != nil {
				return err
			}
			if err := garden.Gone(accounts...); err != nil {
				return err
			}
			return errors.Join(cluster.Gone(resource(), secret(), installed.DeepCopy()),
				is(garden.Exists(others), "the ServiceAccount of another extension is gone"))
		})
	})
}

// manage does the work of the resource-manager for one ManagedResource.
func manage(
	ctx context.Context, cluster *sim.Cluster, c client.Client, mr *resourcesv1alpha1.ManagedResource,
	secret *corev1.Secret, installed *corev1.ConfigMap,
) error {
	const finalizer = "resources.gardener.cloud/gardener-resource-manager"
	if !cluster.Exists(mr) {
		return nil
	}
	if mr.DeletionTimestamp != nil {
		if !ptr.Deref(mr.Spec.KeepObjects, false) {
			if err := client.IgnoreNotFound(c.Delete(ctx, installed.DeepCopy())); err != nil {
				return err
			}
		}
		return cluster.Edit(mr, func() { controllerutil.RemoveFinalizer(mr, finalizer) })
	}
	if err := cluster.Edit(mr, func() { controllerutil.AddFinalizer(mr, finalizer) }); err != nil {
		return err
	}
	if !cluster.Exists(secret) {
		return nil
	}
	var data []byte
	for _, value := range secret.Data {
		data = append(data, value...)
	}
	current := installed.DeepCopy()
	if cluster.Exists(current) && bytes.Equal(current.BinaryData["objects"], data) &&
		mr.Status.ObservedGeneration == mr.Generation {
		return nil
	}
	applied := named[corev1.ConfigMap](installed.Namespace, installed.Name)
	applied.BinaryData = map[string][]byte{"objects": data}
	if err := kube.Apply(ctx, c, applied, "resource-manager"); err != nil {
		return err
	}
	return cluster.EditStatus(mr, func() {
		mr.Status.ObservedGeneration = mr.Generation
		mr.Status.SecretsDataChecksum = new(managedresource.Checksum(secret))
		mr.Status.Conditions = []corev1beta1.Condition{
			{Type: resourcesv1alpha1.ResourcesApplied, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesHealthy, Status: corev1beta1.ConditionTrue},
			{Type: resourcesv1alpha1.ResourcesProgressing, Status: corev1beta1.ConditionFalse},
		}
	})
}
