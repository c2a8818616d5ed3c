package nodeagent

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/internal/nodeagent/units/machineinit"
	"hortus.dev/hortus/internal/nodeagent/units/systemd"
)

// Run obtains access to the cluster and runs all controllers until ctx is done.
func Run(ctx context.Context, configuration *config.Configuration, hostName string, o Options) error {
	logger := textlogger.NewLogger(textlogger.NewConfig())
	log.SetLogger(logger)
	ctx = logr.NewContext(ctx, logger)
	access := &Access{Config: configuration, HostName: hostName, Clock: clock.RealClock{}}
	own, err := access.Ensure(ctx)
	if err != nil {
		return err
	}
	containerd, err := NewContainerd(config.ContainerdSocket)
	if err != nil {
		return err
	}
	mgr, err := newManager(own, configuration, hostName, o)
	if err != nil {
		return err
	}
	direct, err := kubernetes.NewForConfig(own)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	unitManager, metrics := hostUnits(o.ControlSocket), NewMetrics(ctrlmetrics.Registry)
	recorder := mgr.GetEventRecorderFor("gardener-node-agent")
	self := metrics.counting(unitManager, causeCertificate)
	restartSelf := func(ctx context.Context) error { return self.Restart(ctx, config.UnitName) }

	reconciler := &Reconciler{
		Client: mgr.GetClient(), Config: configuration, HostName: hostName, Access: access,
		Applier: &Applier{
			HostName: hostName, Units: metrics.counting(unitManager, causeConfiguration), Images: containerd,
			BeforeUnits: access.PrepareKubelet, ProbeRegistry: ProbeRegistry,
		},
		InPlace: &InPlaceUpdater{
			Run: RunCommand, KubeletHealthy: KubeletHealthz, RestartSelf: restartSelf, Pods: access.AsKubelet,
		},
		Recorder: recorder, Clock: clock.RealClock{}, Metrics: metrics,
	}
	if err := addControllers(mgr, reconciler, &UnitRestarter{
		Client: mgr.GetClient(), Units: metrics.counting(unitManager, causeRequest), Recorder: recorder, HostName: hostName,
	}); err != nil {
		return err
	}
	checker := HealthChecker{
		Units: metrics.counting(unitManager, causeUnhealthy), Reader: mgr.GetClient(), Recorder: recorder,
		HostName: hostName, Clock: clock.RealClock{},
	}
	kubeletChecker, containerdChecker := checker, checker
	kubeletChecker.Unit, kubeletChecker.Check = config.KubeletUnitName, KubeletHealthz
	containerdChecker.Unit, containerdChecker.Check = config.ContainerdUnitName, containerd.Check
	for _, runnable := range []manager.Runnable{
		&LeaseKeeper{Reader: mgr.GetClient(), Leases: direct, HostName: hostName, Clock: clock.RealClock{}},
		&kubeletChecker,
		&containerdChecker,
		manager.RunnableFunc(func(ctx context.Context) error {
			return access.KeepRenewing(ctx, own, func() {
				if err := restartSelf(ctx); err != nil {
					logger.Error(err, "Failed to restart with the new certificate")
				}
			})
		}),
	} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("set up node agent: %w", err)
		}
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run node agent: %w", err)
	}
	return nil
}

// hostUnits returns the manager of this host's units.
func hostUnits(controlSocket string) units.Manager {
	if systemd.Booted() {
		return systemd.Manager{}
	}
	return machineinit.New(controlSocket)
}

// newManager caches only the objects of this node.
func newManager(
	own *rest.Config, configuration *config.Configuration, hostName string, o Options,
) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(coordinationv1.AddToScheme(scheme))
	mgr, err := manager.New(own, manager.Options{
		Scheme:                 scheme,
		HealthProbeBindAddress: o.HealthAddress,
		Metrics:                metricsserver.Options{BindAddress: o.MetricAddress},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Namespaces: map[string]cache.Config{"kube-system": {
					FieldSelector: fields.OneTermEqualSelector("metadata.name",
						configuration.Controllers.OperatingSystemConfig.SecretName),
				}},
			},
			&corev1.Node{}: {Field: fields.OneTermEqualSelector("metadata.name", hostName)},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("set up node agent: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, fmt.Errorf("set up health checks: %w", err)
		}
	}
	return mgr, nil
}

// addControllers lists the controllers. Each has a single object; events of all kinds lead to the same request.
func addControllers(mgr manager.Manager, configuration *Reconciler, restarter *UnitRestarter) error {
	one := func(ctx context.Context, _ client.Object) []reconcile.Request { return []reconcile.Request{{}} }
	options := controller.Options{MaxConcurrentReconciles: 1, RecoverPanic: ptr.To(true)}
	err := builder.ControllerManagedBy(mgr).Named("operating-system-config").WithOptions(options).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(one)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(nodeMatters())).
		Complete(configuration)
	if err != nil {
		return fmt.Errorf("set up controller for the configuration: %w", err)
	}
	err = builder.ControllerManagedBy(mgr).Named("unit-restarts").WithOptions(options).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(one),
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				_, wanted := o.GetAnnotations()[config.AnnotationRestartUnits]
				return wanted
			}))).
		Complete(restarter)
	if err != nil {
		return fmt.Errorf("set up controller for restarts: %w", err)
	}
	return nil
}

// nodeMatters admits the events that matter to the Reconciler: a Node that appears, loses its checksum, is ready for an
// update in place or back from one, or has failed one. Kubelets write their Node's status all the time.
func nodeMatters() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return before.Annotations[config.AnnotationChecksum] != after.Annotations[config.AnnotationChecksum] ||
				!readyForUpdate(before) && readyForUpdate(after) ||
				before.Status.NodeInfo != after.Status.NodeInfo || !isReady(before) && isReady(after)
		},
	}
}
