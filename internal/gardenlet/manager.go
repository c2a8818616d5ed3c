package gardenlet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1api "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/access"
	"hortus.dev/hortus/internal/gardenlet/backupbucket"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/internal/gardenlet/bastion"
	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/gardenlet/controllerinstallation"
	"hortus.dev/hortus/internal/gardenlet/gardenaccess"
	"hortus.dev/hortus/internal/gardenlet/managedseed"
	"hortus.dev/hortus/internal/gardenlet/seed"
	"hortus.dev/hortus/internal/gardenlet/seedextension"
	"hortus.dev/hortus/internal/gardenlet/selfupdate"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/care"
	"hortus.dev/hortus/internal/gardenlet/shoot/snapshot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/metrics"
	"hortus.dev/hortus/internal/reconnect"
	"hortus.dev/hortus/internal/resourcemanager/token"
	"hortus.dev/hortus/internal/version"
)

const (
	fieldOwner = "gardenlet"
	// definitionsTimeout bounds the wait until the seed serves its new kinds; it takes about a second.
	definitionsTimeout = time.Minute
	// cacheSyncTimeout is how long a controller waits for its caches before the process ends. They continue by themselves
	// after an outage, within seconds; a restarted process would be delayed by the kubelet's back-off, by up to 5 minutes.
	cacheSyncTimeout = 24 * time.Hour
)

var userAgent = "gardenlet/" + version.Version

// GardenScheme has the types that a gardenlet uses in the garden.
func GardenScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), corev1beta1.AddToScheme(s), corev1api.AddToScheme(s),
		securityv1alpha1.AddToScheme(s), seedmanagementv1alpha1.AddToScheme(s), operationsv1alpha1.AddToScheme(s))
}

// SeedScheme has the types that a gardenlet uses in the seed.
func SeedScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), extensionsv1alpha1.AddToScheme(s),
		resourcesv1alpha1.AddToScheme(s), gatewayv1.Install(s), machinev1alpha1.AddToScheme(s))
}

// managers holds what connects the gardenlet with its two clusters. The garden's manager runs everything.
type managers struct {
	garden       ctrl.Manager
	gardenDirect client.Client
	seed         cluster.Cluster
	seedDirect   client.Client
	seedREST     rest.Interface
	seedConfig   *rest.Config
	// access renews the certificate by which the garden is reached.
	access *access.Access
	// states has checksums of what ShootStates are made of.
	states    cache.Cache
	discovery discovery.DiscoveryInterface
}

func newManager(ctx context.Context, c *config.GardenletConfiguration) (*managers, error) {
	gardenScheme, err := GardenScheme()
	if err != nil {
		return nil, fmt.Errorf("build scheme of the garden: %w", err)
	}
	seedScheme, err := SeedScheme()
	if err != nil {
		return nil, fmt.Errorf("build scheme of the seed: %w", err)
	}
	seedConfig, err := restConfig(c.SeedClientConnection, "seed")
	if err != nil {
		return nil, err
	}
	if err := reconnect.Wait(ctx, seedConfig, "/version"); err != nil {
		return nil, err
	}
	m := &managers{}
	if m.seedDirect, err = client.New(seedConfig, client.Options{Scheme: seedScheme}); err != nil {
		return nil, fmt.Errorf("connect to the seed: %w", err)
	}
	if m.access, err = access.Open(ctx, &c.GardenClientConnection, c.SeedConfig.Name, m.seedDirect, userAgent,
		clock.RealClock{}); err != nil {
		return nil, err
	}
	gardenConfig := m.access.Config
	if err := reconnect.Wait(ctx, gardenConfig, "/apis/"+corev1beta1.SchemeGroupVersion.String()); err != nil {
		return nil, err
	}
	metricsServer, err := metrics.Server(address(c.Server.Metrics), seedConfig) // Those who read metrics are in the seed.
	if err != nil {
		return nil, err
	}
	m.garden, err = ctrl.NewManager(gardenConfig, ctrl.Options{
		Scheme:                        gardenScheme,
		Cache:                         gardenCache(c.SeedConfig.Name),
		LeaderElection:                *c.LeaderElection.LeaderElect,
		LeaderElectionID:              c.LeaderElection.ResourceName,
		LeaderElectionNamespace:       c.LeaderElection.ResourceNamespace,
		LeaderElectionConfig:          seedConfig, // The replicas run in the seed, so their Lease is there.
		LeaderElectionReleaseOnCancel: true,
		Controller:                    ctrlconfig.Controller{CacheSyncTimeout: cacheSyncTimeout},
		Metrics:                       metricsServer,
		BaseContext:                   func() context.Context { return ctx },
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	if m.gardenDirect, err = client.New(gardenConfig, client.Options{Scheme: gardenScheme}); err != nil {
		return nil, fmt.Errorf("connect to the garden: %w", err)
	}
	m.seed, err = cluster.New(seedConfig, func(o *cluster.Options) {
		o.Scheme = seedScheme
		o.Cache = seedCache()
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the seed: %w", err)
	}
	m.seedConfig = seedConfig
	disco, err := discovery.NewDiscoveryClientForConfig(seedConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the seed: %w", err)
	}
	m.discovery, m.seedREST = disco, disco.RESTClient()
	if err := m.garden.Add(m.seed); err != nil {
		return nil, fmt.Errorf("add the seed's cache: %w", err)
	}
	return m, nil
}

// gardenCache holds only what belongs to the seed: a gardenlet may not see more, and a large garden has much more.
func gardenCache(seedName string) cache.Options {
	label := labels.Set{corev1beta1.LabelPrefixSeedName + seedName: "true"}
	marked := cache.ByObject{Label: labels.SelectorFromSet(label)}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      reconnect.NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&corev1beta1.Shoot{}:                  marked,
			&corev1beta1.BackupBucket{}:           marked,
			&corev1beta1.BackupEntry{}:            marked,
			&seedmanagementv1alpha1.ManagedSeed{}: marked,
			&seedmanagementv1alpha1.Gardenlet{}:   {Field: fields.OneTermEqualSelector("metadata.name", seedName)},
			&corev1beta1.Seed{}:                   {Field: fields.OneTermEqualSelector("metadata.name", seedName)},
			&corev1beta1.ControllerInstallation{}: {Field: fields.OneTermEqualSelector("spec.seedRef.name", seedName)},
			&operationsv1alpha1.Bastion{}:         {Field: fields.OneTermEqualSelector("spec.seedName", seedName)},
		},
	}
}

// seedCache holds metadata. Of Secrets, only those matter whose token somebody waits for.
func seedCache() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      reconnect.NewInformer,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Label: labels.SelectorFromSet(labels.Set{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor}),
			},
		},
	}
}

func restConfig(c *config.ClientConnection, name string) (*rest.Config, error) {
	out, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig of the %s: %w", name, err)
	}
	out.QPS, out.Burst = c.QPS, c.Burst
	out.UserAgent = userAgent
	return out, nil
}

func address(e *config.Endpoint) string { return net.JoinHostPort(e.BindAddress, strconv.Itoa(e.Port)) }

// prepareSeed makes the seed serve the kinds that the caches watch.
func (m *managers) prepareSeed(ctx context.Context) error {
	definitions := crds.Seed()
	for _, d := range definitions {
		if err := kube.Apply(ctx, m.seedDirect, d, fieldOwner); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, definitionsTimeout, true,
		func(ctx context.Context) (bool, error) {
			for _, d := range definitions {
				current := &apiextensionsv1.CustomResourceDefinition{}
				if err := m.seedDirect.Get(ctx, client.ObjectKeyFromObject(d), current); err != nil {
					return false, client.IgnoreNotFound(err)
				}
				if !established(current) {
					return false, nil
				}
			}
			return true, nil
		})
	if err != nil {
		return fmt.Errorf("wait until the seed serves the kinds of the extension contract: %w", err)
	}
	// Unlike others, this cache requests its kinds as soon as it is made.
	if m.states, err = cache.New(m.seedConfig, shootstate.CacheOptions(m.seed.GetScheme())); err != nil {
		return fmt.Errorf("connect to the seed: %w", err)
	}
	if err := m.garden.Add(m.states); err != nil {
		return fmt.Errorf("add the cache of checksums: %w", err)
	}
	return nil
}

func established(d *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}

// addControllers constructs every controller of the gardenlet.
func (m *managers) addControllers(ctx context.Context, c *config.GardenletConfiguration, hortusImage string) error {
	real, me := clock.RealClock{}, identity()
	gardenIdentity := &shoot.GardenIdentity{Garden: m.gardenDirect}
	connector := &shoot.Connector{Scheme: m.seed.GetScheme()}
	images := steps.ImagesFrom(hortusImage, c.Images)
	shoots := c.Controllers.Shoot
	capabilities := &controllerinstallation.Capabilities{Server: m.discovery, Clock: real}
	states := &shootstate.States{Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name}

	if err := m.garden.Add(&registration{garden: m.gardenDirect, seed: c.SeedConfig}); err != nil {
		return fmt.Errorf("add registration of the Seed: %w", err)
	}
	lease := &seed.Lease{
		Garden: m.gardenDirect, SeedREST: m.seedREST, Clock: real, Name: c.SeedConfig.Name, Holder: me.Name,
		Period: time.Duration(*c.Controllers.Seed.LeaseResyncSeconds) * time.Second,
	}
	if err := m.garden.Add(lease); err != nil {
		return fmt.Errorf("add Lease of the Seed: %w", err)
	}
	validity := c.GardenClientConnection.KubeconfigValidity
	renewal := &access.Reconciler{
		Access: m.access, Garden: m.gardenDirect, Events: m.garden.GetEventRecorder("gardenlet"), Clock: real,
		Chance:   rand.Float64,
		SeedName: c.SeedConfig.Name,
		Window: access.Window{
			From: *validity.AutoRotationJitterPercentageMin, To: *validity.AutoRotationJitterPercentageMax,
		},
	}
	if validity.Validity != nil {
		renewal.Validity = &validity.Validity.Duration
	}
	reconciler := &shoot.Reconciler{
		Garden: m.gardenDirect, Cache: m.garden.GetClient(), Seed: m.seedDirect, Clock: real,
		Events: m.garden.GetEventRecorder("gardenlet"), Shoots: connector, States: states,
		SeedName: c.SeedConfig.Name, Identity: me, Images: images, GardenIdentity: gardenIdentity.Get,
		RetryDuration: shoots.RetryDuration.Duration, DNSTTL: *shoots.DNSEntryTTLSeconds,
		FenceTime: shoots.FenceTime.Duration,
		Options: maintenance.ReconcileOptions{
			SyncPeriod:                 shoots.SyncPeriod.Duration,
			RespectSyncPeriodOverwrite: *shoots.RespectSyncPeriodOverwrite,
			InMaintenanceOnly:          *shoots.ReconcileInMaintenanceOnly,
		},
		// The same for all gardenlets, so that a change of leaders moves nothing.
		Jitter:            maintenance.HashJitter(0),
		NewWorkerPoolHash: c.FeatureGates[config.NewWorkerPoolHash],
	}
	registry := ctrlmetrics.Registry
	reconciler.Metrics = shoot.NewMetrics(registry, reconciler.Timers)
	registry.MustRegister(&shoot.Fleet{
		Shoots: m.garden.GetClient(), SeedName: c.SeedConfig.Name, Elected: m.garden.Elected(),
	}, &seed.Health{
		Seeds: m.garden.GetClient(), SeedName: c.SeedConfig.Name, Elected: m.garden.Elected(),
	})
	return errors.Join(
		renewal.AddToManager(m.garden),
		(&seed.Reconciler{
			Garden: m.gardenDirect, Cache: m.garden.GetClient(), Seed: m.seedDirect, Discovery: m.discovery, Clock: real,
			Config: c, Alive: lease.Alive, CertificateNotAfter: m.access.NotAfter,
			Gardener: corev1beta1.Gardener{ID: me.ID, Name: me.Name, Version: me.Version}, Image: images.Hortus,
			Definitions: crds.Seed(), Placeholders: crds.Placeholders(), Policies: crds.Policies(),
		}).AddToManager(m.garden, m.seed, lease.Resumed()),
		(&controllerinstallation.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name,
			GardenIdentity: gardenIdentity.Get, FeatureGates: c.FeatureGates, Charts: &oci.Puller{Clock: real}, Server: m.access,
			Capabilities: capabilities.Get,
		}).AddToManager(m.garden, m.seed, *c.Controllers.ControllerInstallation.ConcurrentSyncs),
		(&selfupdate.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name,
			Charts: &oci.Puller{Clock: real}, Capabilities: capabilities.Get,
		}).AddToManager(m.garden, m.seed),
		(&token.Reconciler{
			Source: m.seed.GetClient(), Target: m.gardenDirect, Clock: real, Class: resourcesv1alpha1.ClassGarden,
			CABundle: token.CABundleOf(m.access.Config),
			Confined: &token.Confinement{
				Namespace: corev1beta1.SeedNamespacePrefix + c.SeedConfig.Name,
				Events:    m.seed.GetEventRecorder("gardenlet"),
				Labels: (&controllerinstallation.TokenPolicy{
					Garden: m.garden.GetClient(), Seed: m.seedDirect, SeedName: c.SeedConfig.Name,
				}).Labels,
			},
		}).AddToManager(m.garden, m.seed.GetCache()),
		(&gardenaccess.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, SeedName: c.SeedConfig.Name,
		}).AddToManager(m.garden),
		(&seedextension.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name,
		}).AddToManager(m.garden, m.seed),
		(&backupbucket.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, Events: m.garden.GetEventRecorder("gardenlet"),
			SeedName: c.SeedConfig.Name, SyncPeriod: c.Controllers.BackupBucket.SyncPeriod.Duration,
		}).AddToManager(m.garden, m.seed, *c.Controllers.BackupBucket.ConcurrentSyncs),
		(&backupentry.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Clock: real, Events: m.garden.GetEventRecorder("gardenlet"),
			SeedName: c.SeedConfig.Name, Grace: backupGrace(c.Controllers.BackupEntry),
		}).AddToManager(m.garden, m.seed, *c.Controllers.BackupEntry.ConcurrentSyncs),
		(&bastion.Reconciler{
			Garden: m.gardenDirect, Cache: m.garden.GetClient(), Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name,
		}).AddToManager(m.garden, m.seed),
		(&managedseed.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Events: m.garden.GetEventRecorder("gardenlet"), Clock: real,
			SeedName: c.SeedConfig.Name, Parent: managedseed.Parent{Config: c, Image: images.Hortus}, Server: m.access,
			Issuer: &access.Issuer{Garden: m.gardenDirect, Clock: real},
		}).AddToManager(m.garden),
		reconciler.AddToManager(m.garden, m.seed, *shoots.ConcurrentSyncs),
		(&shoot.Leftovers{
			Garden: m.gardenDirect, Shoots: m.garden.GetClient(), Seed: m.seedDirect, Clock: real, SeedName: c.SeedConfig.Name,
			Metrics: reconciler.Metrics,
		}).AddToManager(m.garden, m.seed),
		(&snapshot.Reconciler{
			Garden: m.gardenDirect, Seed: m.seedDirect, Shoots: connector, Events: m.garden.GetEventRecorder("gardenlet"),
			SeedName: c.SeedConfig.Name,
		}).AddToManager(m.garden),
		(&care.Reconciler{
			Garden: m.gardenDirect, Cache: m.garden.GetClient(), Seed: m.seedDirect, Clock: real, Shoots: connector,
			SeedName: c.SeedConfig.Name,
			Events:   m.garden.GetEventRecorder("gardenlet"),
			Period:   c.Controllers.ShootCare.SyncPeriod.Duration, Settings: careSettings(c.Controllers.ShootCare),
			RemediateWebhooks: *c.Controllers.ShootCare.WebhookRemediatorEnabled, Metrics: care.NewMetrics(registry),
		}).AddToManager(m.garden, *c.Controllers.ShootCare.ConcurrentSyncs, lease.Resumed()),
		(&shootstate.Reconciler{
			Garden: m.gardenDirect, Shoots: m.garden.GetClient(), Clock: real,
			Events: m.garden.GetEventRecorder("gardenlet"), States: states,
			SyncPeriod: c.Controllers.ShootState.SyncPeriod.Duration, Jitter: maintenance.HashJitter(0),
		}).AddToManager(m.garden, m.states, *c.Controllers.ShootState.ConcurrentSyncs),
	)
}

func backupGrace(c *config.BackupEntryController) backupentry.Grace {
	return backupentry.Grace{
		Period: time.Duration(*c.DeletionGracePeriodHours) * time.Hour, Purposes: c.DeletionGracePeriodShootPurposes,
	}
}

func careSettings(c *config.ShootCareController) care.Settings {
	s := care.Settings{Thresholds: map[corev1beta1.ConditionType]time.Duration{}}
	for _, t := range c.ConditionThresholds {
		s.Thresholds[corev1beta1.ConditionType(t.Type)] = t.Duration.Duration
	}
	if *c.StaleExtensionHealthChecks.Enabled {
		s.StaleAfter = c.StaleExtensionHealthChecks.Threshold.Duration
	}
	return s
}

// identity of this process. The host name is the pod's.
func identity() shoot.Identity {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	return shoot.Identity{ID: name, Name: name, Version: version.Version}
}

// registration makes the Seed exist before anything is reconciled for it.
type registration struct {
	garden client.Client
	seed   *config.SeedConfig
}

// registrationPeriod is the pause between attempts while the garden does not take the Seed.
const registrationPeriod = 2 * time.Second

// Start implements the manager's Runnable.
func (r *registration) Start(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, registrationPeriod, true, func(ctx context.Context) (bool, error) {
		if err := seed.Register(ctx, r.garden, r.seed); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to register the Seed")
			return false, nil
		}
		return true, nil
	})
}

// NeedLeaderElection: replicas with different configurations must not overwrite the Seed in turn.
func (r *registration) NeedLeaderElection() bool { return true }
