package controllermanager

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/controllermanager/bastion"
	"hortus.dev/hortus/internal/controllermanager/binding"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	"hortus.dev/hortus/internal/controllermanager/csr"
	"hortus.dev/hortus/internal/controllermanager/extensionrole"
	"hortus.dev/hortus/internal/controllermanager/gardencertificate"
	"hortus.dev/hortus/internal/controllermanager/gardenlet"
	"hortus.dev/hortus/internal/controllermanager/managedseed"
	"hortus.dev/hortus/internal/controllermanager/namespacedcloudprofile"
	"hortus.dev/hortus/internal/controllermanager/project"
	"hortus.dev/hortus/internal/controllermanager/project/stale"
	"hortus.dev/hortus/internal/controllermanager/protection"
	"hortus.dev/hortus/internal/controllermanager/seed"
	"hortus.dev/hortus/internal/controllermanager/shoot"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/metrics"
	"hortus.dev/hortus/internal/reconnect"
)

type options struct {
	healthAddress, metricsAddress, leaderElectionNamespace string
	leaderElect                                            bool
	shoot                                                  shoot.Config
	stale                                                  stale.Config
}

// NewCommand returns 'hortus controller-manager'.
func NewCommand() *cobra.Command {
	o := options{stale: stale.Default()}
	command := &cobra.Command{
		Use:   "controller-manager",
		Short: "Reconcile Projects, Seeds, extensions and the maintenance of Shoots",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return run(command.Context(), o) },
	}
	f := command.Flags()
	f.BoolVar(&o.leaderElect, "leader-elect", false, "elect a leader, so that only one of several replicas is active")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "garden",
		"namespace of the leader election lease")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:8080",
		"address of /metrics; readers need credentials except on the loopback interface; 0 switches it off")
	f.IntVar(&o.shoot.ConcurrentSyncs, "shoot-concurrent-syncs", 0,
		"Shoots that each controller processes concurrently; 0 means the default")
	f.Uint64Var(&o.shoot.MaintenanceJitterSeed, "maintenance-jitter-seed", 0,
		"spreads maintenances inside their windows; 'hortus plan' needs the same seed to compute the same times")
	f.IntVar(&o.stale.MinimumLifetimeDays, "project-minimum-lifetime-days", o.stale.MinimumLifetimeDays,
		"days without use, after creation and last activity, before a Project is stale")
	f.IntVar(&o.stale.GracePeriodDays, "project-stale-grace-period-days", o.stale.GracePeriodDays,
		"days that a Project is stale before its deletion is announced")
	f.IntVar(&o.stale.ExpirationTimeDays, "project-stale-expiration-time-days", o.stale.ExpirationTimeDays,
		"days that a Project is stale before it is deleted; not less than the grace period")
	f.DurationVar(&o.stale.SyncPeriod, "project-stale-sync-period", o.stale.SyncPeriod,
		"how often each Project is checked for staleness")
	return command
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(corev1beta1.AddToScheme(scheme))
	utilruntime.Must(securityv1alpha1.AddToScheme(scheme))
	utilruntime.Must(seedmanagementv1alpha1.AddToScheme(scheme))
	utilruntime.Must(operationsv1alpha1.AddToScheme(scheme))
	return scheme
}

// addControllers is the list of all controllers.
func addControllers(ctx context.Context, mgr ctrl.Manager, o options, clock clock.PassiveClock) error {
	if err := controllerregistration.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index objects of seeds: %w", err)
	}
	if registry := o.shoot.Metrics; registry != nil {
		registry.MustRegister(&project.Fleet{Garden: mgr.GetClient(), Elected: mgr.Elected()})
	}
	for _, add := range []func(ctrl.Manager) error{
		(&project.Reconciler{
			Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("hortus-project"),
		}).SetupWithManager,
		(&stale.Reconciler{
			Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock, Config: o.stale,
		}).SetupWithManager,
		(&stale.Activity{Garden: mgr.GetClient(), Clock: clock}).SetupWithManager,
		(&seed.Lifecycle{Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock}).SetupWithManager,
		(&seed.BackupBuckets{Garden: mgr.GetClient(), Clock: clock}).SetupWithManager,
		(&controllerregistration.Reconciler{Garden: mgr.GetClient(), Live: mgr.GetAPIReader()}).SetupWithManager,
		(&namespacedcloudprofile.Reconciler{Garden: mgr.GetClient()}).AddToManager,
		(&bastion.Reconciler{Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock}).AddToManager,
		(&managedseed.Reconciler{Garden: mgr.GetClient()}).AddToManager,
		(&gardencertificate.Reconciler{Garden: mgr.GetClient(), Clock: clock}).AddToManager,
		(&gardenlet.Reconciler{
			Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock, Charts: &oci.Puller{Clock: clock},
			CABundle: func() ([]byte, error) { return caBundleOf(mgr.GetConfig()) }, NewToken: bootstraptoken.New,
			Connect: gardenlet.Connect,
		}).AddToManager,
		(&extensionrole.Reconciler{
			Garden: mgr.GetClient(), Events: mgr.GetEventRecorder("hortus-extension-clusterrole"),
		}).AddToManager,
		(&csr.Reconciler{Garden: mgr.GetClient(), Direct: mgr.GetAPIReader(), Clock: clock}).AddToManager,
		protection.AddToManager,
		binding.AddToManager,
		func(mgr ctrl.Manager) error { return shoot.AddToManager(mgr, o.shoot, clock) },
	} {
		if err := add(mgr); err != nil {
			return err
		}
	}
	return nil
}

// caBundleOf returns the CA bundle by which the garden is reached, which may be in a file that changes.
func caBundleOf(config *rest.Config) ([]byte, error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("read CA bundle of the garden: %w", err)
	}
	return config.CAData, nil
}

func run(ctx context.Context, o options) error {
	if err := o.stale.Validate(); err != nil {
		return fmt.Errorf("flags of stale Projects: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	o.shoot.Metrics = ctrlmetrics.Registry
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the garden: %w", err)
	}
	probes, err := reconnect.ServeProbes(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	defer probes.Close()
	if err := reconnect.Wait(ctx, restConfig, "/apis/"+corev1beta1.SchemeGroupVersion.String()); err != nil {
		return err
	}
	mgr, err := newManager(ctx, restConfig, o, clock.RealClock{})
	if err != nil {
		return err
	}
	probes.Ready()
	return mgr.Start(ctx)
}

// newManager creates the manager and all controllers without starting them.
func newManager(
	ctx context.Context, restConfig *rest.Config, o options, clock clock.PassiveClock,
) (ctrl.Manager, error) {
	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS, restConfig.Burst = -1, 0 // Limited by the API server's priority and fairness, not by this client.
	metricsServer, err := metrics.Server(o.metricsAddress, restConfig)
	if err != nil {
		return nil, err
	}
	byObject, err := extensionrole.Cache()
	if err != nil {
		return nil, err
	}
	byObject[&coordinationv1.Lease{}] = cache.ByObject{
		Namespaces: map[string]cache.Config{"gardener-system-seed-lease": {}},
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: newScheme(),
		// Only tests run several managers in one process.
		Controller:                    ctrlconfig.Controller{SkipNameValidation: new(true)},
		Metrics:                       metricsServer,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "hortus-controller-manager",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(5 * time.Second),
		// Contents of Secrets and ConfigMaps are read when needed; a cache would hold all credentials of the garden.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{},
		}}},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         byObject,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := addControllers(ctx, mgr, o, clock); err != nil {
		return nil, err
	}
	return mgr, nil
}
