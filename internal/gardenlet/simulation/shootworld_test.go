package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/component/gateway"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/secretsmanager"
	"hortus.dev/hortus/test/sim"
)

const (
	// providerType is the type of all extension objects but OperatingSystemConfigs, whose type is that of the image.
	providerType, imageType = "simulated", "simulated-image"
	gardenletVersion        = "test"
	// shootSync is longer than a run, so that nothing is reconciled without a reason.
	shootSync = 1000 * time.Hour
)

// seedScheme has all kinds that a control plane needs.
func seedScheme() *runtime.Scheme {
	scheme := sim.Scheme()
	for _, add := range []func(*runtime.Scheme) error{
		machinev1alpha1.AddToScheme, gatewayv1.Install, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // The kinds are those of the test.
		}
	}
	return scheme
}

// ignoreEnding ignores that nothing can be created in a namespace that is being deleted.
func ignoreEnding(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// newHosting adds a seed.
func newHosting(
	w *sim.World, name string, scheme *runtime.Scheme, user *sim.Cluster, cloud *provider, b *bucket,
) *hosting {
	h := &hosting{
		name: name, seed: w.Cluster("seed-"+name, scheme), user: user, cloud: cloud, bucket: b,
		volumes: map[types.UID]*volume{},
	}
	h.seed.AddNamespaces("garden", gateway.Namespace)
	service := named[corev1.Service](gateway.Namespace, gateway.Name)
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.18.8.1"}}
	h.seed.Add(service)
	h.actors(w)
	return h
}

// addGarden adds the objects of a garden that Shoots need.
func addGarden(garden *sim.Cluster, seeds ...string) {
	garden.AddNamespaces("garden", "garden-dev")
	project := named[corev1beta1.Project]("", "dev")
	project.Spec.Namespace = new("garden-dev")
	profile := named[corev1beta1.CloudProfile]("", "profile")
	profile.Spec = corev1beta1.CloudProfileSpec{
		Type:       providerType,
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{{Version: "1.36.3"}}},
		MachineTypes: []corev1beta1.MachineType{{
			Name: "small", CPU: resource.MustParse("1"), GPU: resource.MustParse("0"), Memory: resource.MustParse("2Gi"),
		}},
		Regions: []corev1beta1.Region{{Name: "r"}},
	}
	key := named[corev1.Secret]("garden-dev", "key")
	key.Data = map[string][]byte{"key": []byte("1")}
	binding := named[securityv1alpha1.CredentialsBinding]("garden-dev", "key")
	binding.Provider.Type = providerType
	binding.CredentialsRef = corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: key.Namespace, Name: key.Name,
	}
	registration := named[corev1beta1.ControllerRegistration]("", "provider")
	offer := func(t string, kinds ...string) {
		for _, kind := range kinds {
			registration.Spec.Resources = append(registration.Spec.Resources,
				corev1beta1.ControllerResource{Kind: kind, Type: t, WorkerlessSupported: new(true)})
		}
	}
	offer(imageType, extensionsv1alpha1.OperatingSystemConfigKind)
	offer(providerType, extensionsv1alpha1.InfrastructureKind, extensionsv1alpha1.ControlPlaneKind,
		extensionsv1alpha1.WorkerKind, extensionsv1alpha1.NetworkKind, extensionsv1alpha1.DNSRecordKind,
		extensionsv1alpha1.ExtensionKind)
	garden.Add(project, profile, key, binding, registration, named[corev1.Secret]("garden", "dns"))
	for _, name := range seeds {
		addSeed(garden, name, registration.Name)
	}
}

// addSeed adds a seed that is ready, with the provider.
func addSeed(garden *sim.Cluster, name, registration string) {
	credentials := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns"}
	seed := named[corev1beta1.Seed]("", name)
	seed.Spec = corev1beta1.SeedSpec{
		Provider: corev1beta1.SeedProvider{Type: providerType, Region: "r"},
		Networks: corev1beta1.SeedNetworks{Pods: "10.244.0.0/16", Services: "10.0.0.0/24"},
		DNS: corev1beta1.SeedDNS{Internal: &corev1beta1.SeedDNSProviderConfig{
			Type: providerType, Domain: "internal.example.com", CredentialsRef: credentials,
		}},
	}
	seed.Status.Gardener = &corev1beta1.Gardener{Version: gardenletVersion}
	seed.Status.ObservedGeneration = 1
	for _, kind := range []corev1beta1.ConditionType{
		corev1beta1.SeedGardenletReady, corev1beta1.SeedSystemComponentsHealthy,
	} {
		seed.Status.Conditions = append(seed.Status.Conditions,
			corev1beta1.Condition{Type: kind, Status: corev1beta1.ConditionTrue})
	}
	i := named[corev1beta1.ControllerInstallation]("", "provider-"+name)
	i.Spec.RegistrationRef.Name, i.Spec.SeedRef = registration, &corev1.ObjectReference{Name: name}
	i.Status.Conditions = []corev1beta1.Condition{
		{Type: corev1beta1.ControllerInstallationInstalled, Status: corev1beta1.ConditionTrue},
		{Type: corev1beta1.ControllerInstallationHealthy, Status: corev1beta1.ConditionTrue},
		{Type: corev1beta1.ControllerInstallationProgressing, Status: corev1beta1.ConditionFalse},
	}
	garden.Add(seed, i)
}

// addGardenlet starts a gardenlet that reconciles Shoots.
func (r *shootRun) addGardenlet(h *hosting) {
	r.Process("gardenlet-"+h.name, r.garden, func(p *sim.Process) error {
		states := &shootstate.States{
			Garden: p.In(r.garden).Direct(), Seed: p.In(h.seed).Direct(), Clock: r.now, SeedName: h.name,
		}
		if len(r.hosts) > 1 {
			if err := r.addMoves(p, h, states); err != nil {
				return err
			}
		}
		return (&shoot.Reconciler{
			Garden: p.In(r.garden).Direct(), Cache: p.GetClient(), Seed: p.In(h.seed).Direct(), Clock: r.now,
			Events: p.GetEventRecorder("gardenlet"), Shoots: network{h, p}, SeedName: h.name, GardenIdentity: identityOfGarden,
			Identity: shoot.Identity{ID: "i", Name: "gardenlet", Version: gardenletVersion}, Images: steps.DefaultImages(),
			Options: maintenance.ReconcileOptions{SyncPeriod: shootSync}, Jitter: maintenance.HashJitter(0),
			RetryDuration: shootSync, DNSTTL: 120, NewWorkerPoolHash: true, RSABits: secretsmanager.TestRSABits,
			InOrder: true, States: states,
		}).AddToManager(p, p.In(h.seed), 1)
	})
}

// addProvider starts the extensions of a seed, for all kinds of objects.
func (o *provider) addProvider(w *sim.World, h *hosting) {
	w.Process("provider-"+h.name, h.seed, func(p *sim.Process) error {
		cloud := p.In(o.cloud).Direct()
		machine := inCloud(kindMachine, "s")
		infrastructures := keepers[*extensionsv1alpha1.Infrastructure](o, cloud, extensionsv1alpha1.InfrastructureKind,
			func(_ context.Context, i *extensionsv1alpha1.Infrastructure) (string, error) {
				network := `{"network":"s"}`
				if i.Status.State == nil && o.cloud.Exists(inCloud(extensionsv1alpha1.InfrastructureKind, i.Name)) &&
					i.Status.ObservedGeneration == 0 {
					o.problem = fmt.Errorf("the Infrastructure of seed %s does not know its network", h.name)
				}
				i.Status.State = &runtime.RawExtension{Raw: []byte(network)}
				i.Status.NodesCIDR = new("10.250.0.0/16")
				i.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(network)}
				return "network", nil
			})
		workers := keepers[*extensionsv1alpha1.Worker](o, cloud, extensionsv1alpha1.WorkerKind,
			func(ctx context.Context, worker *extensionsv1alpha1.Worker) (string, error) {
				cluster, err := extension.GetCluster(ctx, p.GetClient(), worker.Namespace)
				if err != nil {
					return "", err
				}
				if cluster.Shoot.HibernationEnabled() {
					return "asleep", client.IgnoreNotFound(cloud.Delete(ctx, machine.DeepCopy()))
				}
				return "awake", client.IgnoreAlreadyExists(cloud.Create(ctx, machine.DeepCopy()))
			})
		workers.clean = func(ctx context.Context, _ *extensionsv1alpha1.Worker) error {
			return client.IgnoreNotFound(cloud.Delete(ctx, machine.DeepCopy()))
		}
		extensions := keepers[*extensionsv1alpha1.Extension](o, cloud, extensionsv1alpha1.ExtensionKind,
			func(_ context.Context, e *extensionsv1alpha1.Extension) (string, error) {
				return string(ptr.Deref(e.Spec.ProviderConfig, runtime.RawExtension{}).Raw), nil
			})
		configs := keepers[*extensionsv1alpha1.OperatingSystemConfig](o, cloud,
			extensionsv1alpha1.OperatingSystemConfigKind,
			func(_ context.Context, c *extensionsv1alpha1.OperatingSystemConfig) (string, error) {
				c.Status.CloudConfig = &extensionsv1alpha1.CloudConfig{
					SecretRef: corev1.SecretReference{Namespace: c.Namespace, Name: "osc-result-" + c.Name},
				}
				return string(c.Spec.Purpose), nil
			})
		return errors.Join(
			o.addEntries(p),
			infrastructures.add(p, &extensionsv1alpha1.Infrastructure{},
				func(r *extension.Reconciler[*extensionsv1alpha1.Infrastructure]) {
					r.SecretRef = func(i *extensionsv1alpha1.Infrastructure) *corev1.SecretReference { return &i.Spec.SecretRef }
				}),
			workers.add(p, &extensionsv1alpha1.Worker{}, func(*extension.Reconciler[*extensionsv1alpha1.Worker]) {}),
			extensions.add(p, &extensionsv1alpha1.Extension{}, func(r *extension.Reconciler[*extensionsv1alpha1.Extension]) {
				r.FinalizerSuffix = "simulated"
			}),
			configs.add(p, &extensionsv1alpha1.OperatingSystemConfig{},
				func(r *extension.Reconciler[*extensionsv1alpha1.OperatingSystemConfig]) { r.Type = imageType }),
			keepers[*extensionsv1alpha1.ControlPlane](o, cloud, extensionsv1alpha1.ControlPlaneKind, nothing).add(p,
				&extensionsv1alpha1.ControlPlane{}, func(*extension.Reconciler[*extensionsv1alpha1.ControlPlane]) {}),
			keepers[*extensionsv1alpha1.Network](o, cloud, extensionsv1alpha1.NetworkKind, nothing).add(p,
				&extensionsv1alpha1.Network{}, func(*extension.Reconciler[*extensionsv1alpha1.Network]) {}),
			keepers[*extensionsv1alpha1.DNSRecord](o, cloud, extensionsv1alpha1.DNSRecordKind, nothing).add(p,
				&extensionsv1alpha1.DNSRecord{}, func(*extension.Reconciler[*extensionsv1alpha1.DNSRecord]) {}),
		)
	})
}

func keepers[T extension.Object](
	o *provider, cloud client.Client, kind string, content func(context.Context, T) (string, error),
) keeper[T] {
	return keeper[T]{provider: o, cloud: cloud, kind: kind, content: content}
}

// nothing is the content of an object of the cloud that is made once.
func nothing[T extension.Object](context.Context, T) (string, error) { return "", nil }

// newShoot is the Shoot s, with one pool or none. The version is that of its extension.
func newShoot(pools ...string) *corev1beta1.Shoot {
	s := named[corev1beta1.Shoot]("garden-dev", "s")
	s.Spec = corev1beta1.ShootSpec{
		CloudProfile: &corev1beta1.CloudProfileReference{Kind: corev1beta1.CloudProfileKind, Name: "profile"},
		Region:       "r", Kubernetes: corev1beta1.Kubernetes{Version: "1.36.3"},
		Provider:   corev1beta1.Provider{Type: providerType},
		SeedName:   new("a"),
		Networking: &corev1beta1.Networking{Services: new("100.64.0.0/16")},
	}
	if len(pools) > 0 {
		s.Spec.CredentialsBindingName = new("key")
		s.Spec.Networking.Type, s.Spec.Networking.Pods = new(providerType), new("100.96.0.0/16")
	}
	for _, name := range pools {
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{
			Name: name, Minimum: 1, Maximum: 2,
			Machine: corev1beta1.Machine{
				Type: "small", Image: &corev1beta1.ShootMachineImage{Name: imageType, Version: new("1.0.0")},
			},
		})
	}
	configure(s, 1)
	corev1beta1.SetDefaultsShoot(s)
	return s
}

// configure gives the extension of a Shoot a configuration.
func configure(s *corev1beta1.Shoot, version int) {
	s.Spec.Extensions = []corev1beta1.Extension{{
		Type: providerType, ProviderConfig: &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"version":%d}`, version)},
	}}
}

// systemComponent is an object that the clean-up of a Shoot leaves alone.
func systemComponent(o client.Object) client.Object {
	o.SetLabels(map[string]string{corev1beta1.LabelNoCleanup: "true"})
	return o
}

// addUser adds what is in the Shoot of a user, besides its load balancer.
func addUser(user *sim.Cluster) {
	user.AddNamespaces(metav1.NamespaceDefault, metav1.NamespaceSystem)
	pod := named[corev1.Pod](metav1.NamespaceDefault, "p")
	pod.Status.Phase = corev1.PodRunning
	user.Add(pod, systemComponent(named[corev1.Service](metav1.NamespaceDefault, "kubernetes")))
}
