package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
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
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/metrics"
	"hortus.dev/hortus/internal/reconnect"
)

type options struct {
	name, strategy, healthAddress, metricsAddress, leaderElectionNamespace string
	leaderElect                                                            bool
	workers                                                                int
	metrics                                                                *Metrics
}

// NewCommand returns 'hortus scheduler'.
func NewCommand() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "scheduler",
		Short: "Assign Shoots to seeds",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return run(command.Context(), o) },
	}
	f := command.Flags()
	f.StringVar(&o.name, "scheduler-name", corev1beta1.DefaultSchedulerName,
		"handle the Shoots whose spec.schedulerName is this")
	f.StringVar(&o.strategy, "strategy", string(SameRegion), "strategy: SameRegion or MinimalDistance")
	f.IntVar(&o.workers, "workers", 8, "Shoots that are processed concurrently")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "elect a leader, so that only one of several replicas is active")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", corev1beta1.GardenNamespace,
		"namespace of the leader election lease")
	f.StringVar(&o.healthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:8080",
		"address of /metrics; readers need credentials except on the loopback interface; 0 switches it off")
	return command
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(corev1beta1.AddToScheme(scheme))
	return scheme
}

// ParseStrategy parses the value of a flag.
func ParseStrategy(s string) (Strategy, error) {
	switch strategy := Strategy(s); strategy {
	case SameRegion, MinimalDistance:
		return strategy, nil
	}
	return "", fmt.Errorf("--strategy: unsupported value: %q (%s, %s)", s, SameRegion, MinimalDistance)
}

func run(ctx context.Context, o options) error {
	strategy, err := ParseStrategy(o.strategy)
	if err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the garden: %w", err)
	}
	restConfig.QPS, restConfig.Burst = -1, 0 // The API server's priority and fairness limits requests, not this client.
	probes, err := reconnect.ServeProbes(ctx, o.healthAddress)
	if err != nil {
		return err
	}
	defer probes.Close()
	if err := reconnect.Wait(ctx, restConfig, "/apis/"+corev1beta1.SchemeGroupVersion.String()); err != nil {
		return err
	}
	o.metrics = NewMetrics(ctrlmetrics.Registry)
	mgr, err := newManager(ctx, restConfig, o, strategy, backOff())
	if err != nil {
		return err
	}
	probes.Ready()
	return mgr.Start(ctx)
}

// newManager makes the manager with the controller in it.
func newManager(
	ctx context.Context, restConfig *rest.Config, o options, strategy Strategy, retry RetryLimiter,
) (ctrl.Manager, error) {
	metricsServer, err := metrics.Server(o.metricsAddress, restConfig)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                        newScheme(),
		Metrics:                       metricsServer,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "hortus-scheduler-" + o.name,
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       new(5 * time.Second),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{corev1beta1.GardenNamespace: {}}},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	if err := AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index Shoots: %w", err)
	}
	reconciler := &Reconciler{
		Garden: mgr.GetClient(), Clock: clock.RealClock{}, Recorder: mgr.GetEventRecorder("hortus-scheduler"),
		Name: o.name, Strategy: strategy, Workers: o.workers, Retry: retry,
		Metrics: o.metrics,
	}
	if err := reconciler.SetupWithManager(ctx, mgr); err != nil {
		return nil, err
	}
	return mgr, nil
}
