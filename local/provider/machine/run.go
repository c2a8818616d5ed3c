package machine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/Masterminds/semver/v3"
	machineclientset "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	machinescheme "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/scheme"
	machineinformers "github.com/gardener/machine-controller-manager/pkg/client/informers/externalversions"
	deploymentcontroller "github.com/gardener/machine-controller-manager/pkg/controller"
	"github.com/gardener/machine-controller-manager/pkg/handlers"
	deploymentoptions "github.com/gardener/machine-controller-manager/pkg/options"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/drain"
	machinecontroller "github.com/gardener/machine-controller-manager/pkg/util/provider/machinecontroller"
	machineoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/options"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
)

const (
	// Lease times of Kubernetes' own controllers.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second

	// resync only guards against lost events, which informers do not have.
	resync = 12 * time.Hour
	// workers per queue: enough for a pool of dozens, and few enough to cost no memory.
	workers = 10

	shutdownTimeout = 5 * time.Second
)

// Options configure one process. The durations are the library's and are overridden by those of a pool.
type Options struct {
	Namespace string // Control plane namespace.
	// HealthAddress is that of /healthz and /readyz, MetricsAddress that of /metrics: the first one is open to every
	// client that reaches it, so it serves nothing else.
	HealthAddress, MetricsAddress string
	LeaderElect                   bool

	NodeConditions string // Comma-separated; True makes a machine unhealthy.
	Machines       machineoptions.SafetyOptions
	Deployments    deploymentoptions.SafetyOptions
}

// DefaultOptions are the library's defaults, with shorter periods, since instances are created and deleted in seconds.
func DefaultOptions() Options {
	return Options{
		HealthAddress:  ":10258",
		MetricsAddress: "127.0.0.1:8080",
		LeaderElect:    true,
		NodeConditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure",
		Machines: machineoptions.SafetyOptions{
			MachineCreationTimeout:      metav1.Duration{Duration: worker.DefaultMachineTimeout},
			MachineHealthTimeout:        metav1.Duration{Duration: worker.DefaultMachineTimeout},
			MachineDrainTimeout:         metav1.Duration{Duration: drain.DefaultMachineDrainTimeout},
			MachineInPlaceUpdateTimeout: metav1.Duration{Duration: 20 * time.Minute},
			MaxEvictRetries:             drain.DefaultMaxEvictRetries,
			PvDetachTimeout:             metav1.Duration{Duration: 30 * time.Second},
			// Per pod a drain waits for this time at most until its volumes are attached to another node, which takes two or
			// three seconds unless there is no other node, as when all machines are deleted.
			PvReattachTimeout:                        metav1.Duration{Duration: 10 * time.Second},
			MachineSafetyOrphanVMsPeriod:             metav1.Duration{Duration: 5 * time.Minute},
			MachineSafetyAPIServerStatusCheckPeriod:  metav1.Duration{Duration: time.Minute},
			MachineSafetyAPIServerStatusCheckTimeout: metav1.Duration{Duration: 30 * time.Second},
		},
		Deployments: deploymentoptions.SafetyOptions{
			SafetyUp: 2, SafetyDown: 1, MachineSafetyOvershootingPeriod: metav1.Duration{Duration: time.Minute},
		},
	}
}

// Run runs all controllers until ctx ends or one of them fails permanently. Control is the cluster with the machine
// objects, target the one the machines join.
func Run(ctx context.Context, opts Options, control, target *rest.Config) error {
	for _, cfg := range []*rest.Config{control, target} {
		cfg.QPS = -1 // See process.Options: the API server protects itself.
	}
	controlClient, err := kubernetes.NewForConfig(control)
	if err != nil {
		return fmt.Errorf("client of the control cluster: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, s := range []struct {
		address string
		handler http.Handler
	}{{opts.HealthAddress, healthHandler()}, {opts.MetricsAddress, metricsHandler()}} {
		go func() {
			if err := serveHTTP(ctx, s.address, s.handler); err != nil {
				cancel(err)
			}
		}()
	}
	handlers.UpdateHealth(true)
	if !opts.LeaderElect {
		return cause(ctx, runControllers(ctx, opts, control, target, controlClient))
	}
	id, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("identity for leader election: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: opts.Namespace, Name: name},
			Client:     controlClient.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := runControllers(ctx, opts, control, target, controlClient); err != nil {
					cancel(err)
				}
			},
			OnStoppedLeading: func() { cancel(errors.New("the lease was lost")) },
		},
	})
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	elector.Run(ctx)
	return cause(ctx, nil)
}

// cause returns why a context ended, unless the caller has ended it.
func cause(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	return nil
}

// runControllers constructs the library's controllers on shared caches and runs them until ctx ends.
func runControllers(
	ctx context.Context, opts Options, control, target *rest.Config, controlClient kubernetes.Interface,
) error {
	targetClient, err := kubernetes.NewForConfig(target)
	if err != nil {
		return fmt.Errorf("client of the target cluster: %w", err)
	}
	machineClient, err := machineclientset.NewForConfig(control)
	if err != nil {
		return fmt.Errorf("client of machines: %w", err)
	}
	// The target starts at the same time as this process, and gets the permissions of this process a moment later.
	if err := kube.WaitForAPI(ctx, target, "/readyz", "/api/v1/nodes?limit=1"); err != nil {
		return err
	}
	version, err := targetVersion(targetClient)
	if err != nil {
		return err
	}
	machineFactory := machineinformers.NewSharedInformerFactoryWithOptions(machineClient, resync,
		machineinformers.WithNamespace(opts.Namespace))
	controlFactory := kubeinformers.NewSharedInformerFactoryWithOptions(controlClient, resync,
		kubeinformers.WithNamespace(opts.Namespace))
	targetFactory := kubeinformers.NewSharedInformerFactoryWithOptions(targetClient, resync,
		kubeinformers.WithTransform(slim))
	machines := machineFactory.Machine().V1alpha1()
	wake := &wakeups{MachineInformer: machines.Machines()}
	recorder := newRecorder(controlClient, opts.Namespace)

	deployments, err := deploymentcontroller.NewController(opts.Namespace, machineClient.MachineV1alpha1(), controlClient,
		targetClient,
		targetFactory, machines.Machines(), machines.MachineSets(), machines.MachineDeployments(), recorder, opts.Deployments,
		true)
	if err != nil {
		return fmt.Errorf("set up deployment controller: %w", err)
	}
	driver := &Driver{
		Clock: clock.RealClock{},
		Cloud: CloudFor(&credentials.Clients{}, func(api *cloud.Client) { wake.watchCloud(ctx, api) }),
	}
	singles, err := machinecontroller.NewController(opts.Namespace, machineClient.MachineV1alpha1(), controlClient,
		targetClient, driver,
		targetFactory, controlFactory.Core().V1().Secrets(), machines.MachineClasses(), wake, recorder,
		opts.Machines, opts.NodeConditions, "", version)
	if err != nil {
		return fmt.Errorf("set up machine controller: %w", err)
	}
	if err := wake.watchSteps(machines.MachineClasses()); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	replacements := newReplacements(machineClient.MachineV1alpha1().Machines(opts.Namespace),
		opts.Machines.MachineHealthTimeout.Duration, clock.RealClock{})
	if err := replacements.watch(machines.Machines().Informer()); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	machineFactory.Start(ctx.Done())
	controlFactory.Start(ctx.Done())
	targetFactory.Start(ctx.Done())

	// The library's Run waits for its workers before it closes the queues they wait for, so it never returns: the process
	// ends without it. The next process continues the work in progress.
	go deployments.Run(workers, ctx.Done())
	go singles.Run(workers, ctx.Done())
	go replacements.run(ctx)
	<-ctx.Done()
	return nil
}

// slim drops the fields that the controllers never read.
func slim(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return obj, nil
}

func targetVersion(c kubernetes.Interface) (*semver.Version, error) {
	info, err := c.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read version of the target cluster: %w", err)
	}
	version, err := semver.NewVersion(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("read version of the target cluster: %w", err)
	}
	return version, nil
}

func newRecorder(c kubernetes.Interface, namespace string) record.EventRecorder {
	scheme := kubescheme.Scheme
	_ = machinescheme.AddToScheme(scheme) // The other half of the library adds the same types.
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.CoreV1().Events(namespace)})
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: name})
}

func healthHandler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.HandleFunc(path, handlers.Healthz)
	}
	return mux
}

func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: shutdownTimeout}
	go func() {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		_ = server.Shutdown(stop)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	return nil
}
