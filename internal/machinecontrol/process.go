package machinecontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/handlers"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"hortus.dev/hortus/internal/kube"
)

const (
	// A leader ends when it could not renew its Lease until the deadline. An old pod releases its Lease, so only a process
	// that has crashed makes others wait for the whole duration.
	leaseDuration = 30 * time.Second
	renewDeadline = 20 * time.Second
	retryPeriod   = 5 * time.Second

	// Workers per queue: enough for a pool of dozens, and few enough to cost no memory.
	Workers = 10

	shutdownTimeout = 5 * time.Second

	// inCluster is the library's name for the cluster that the process runs in.
	inCluster = "inClusterConfig"
)

// Process is a process with controllers of the library.
type Process struct {
	// Name of the process, its user agent and its Lease.
	Name string
	// Namespace of the control plane.
	Namespace string
	// ControlKubeconfig is that of the cluster with the machine objects, TargetKubeconfig that of the one which the
	// machines join.
	ControlKubeconfig, TargetKubeconfig string
	// HealthAddress is that of /healthz and /readyz, MetricsAddress that of /metrics: the first one is open to every
	// client that reaches it, so it serves nothing else.
	HealthAddress, MetricsAddress string
	LeaderElect                   bool
}

// AddFlags adds the flags of the process to a command.
func (p *Process) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.ControlKubeconfig, "control-kubeconfig", inCluster,
		"path of a kubeconfig of the cluster with the machine objects; "+inCluster+" means the one the process runs in")
	f.StringVar(&p.TargetKubeconfig, "target-kubeconfig", "", "path of a kubeconfig of the cluster the machines join")
	f.StringVar(&p.Namespace, "namespace", "", "namespace of the machine objects")
	f.StringVar(&p.HealthAddress, "health-address", p.HealthAddress, "address of /healthz and /readyz")
	f.StringVar(&p.MetricsAddress, "metrics-address", p.MetricsAddress, "address of /metrics")
	f.BoolVar(&p.LeaderElect, "leader-elect", p.LeaderElect,
		"elect a leader, so that an old pod does not interfere with a new one")
	for _, required := range []string{"target-kubeconfig", "namespace"} {
		utilruntime.Must(cmd.MarkFlagRequired(required))
	}
}

// Run runs controllers until ctx ends or they fail permanently.
func (p *Process) Run(ctx context.Context, controllers func(context.Context, *Clusters) error) error {
	control, err := p.restConfig(p.ControlKubeconfig, "control")
	if err != nil {
		return err
	}
	target, err := p.restConfig(p.TargetKubeconfig, "target")
	if err != nil {
		return err
	}
	lead := func(ctx context.Context) error {
		// The target starts at the same time as this process, and gets the permissions of this process a moment later.
		if err := kube.WaitForAPI(ctx, target, "/readyz", "/api/v1/nodes?limit=1"); err != nil {
			return err
		}
		clusters, err := newClusters(p, control, target)
		if err != nil {
			return err
		}
		return controllers(ctx, clusters)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, s := range []struct {
		address string
		handler http.Handler
	}{{p.HealthAddress, healthHandler()}, {p.MetricsAddress, metricsHandler()}} {
		go func() {
			if err := serveHTTP(ctx, s.address, s.handler); err != nil {
				cancel(err)
			}
		}()
	}
	handlers.UpdateHealth(true)
	if !p.LeaderElect {
		return cause(ctx, lead(ctx))
	}
	return p.elect(ctx, cancel, control, lead)
}

func (p *Process) restConfig(kubeconfig, cluster string) (*rest.Config, error) {
	if kubeconfig == inCluster {
		kubeconfig = ""
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig of the %s cluster: %w", cluster, err)
	}
	config.QPS = -1 // The API server protects itself.
	return rest.AddUserAgent(config, p.Name), nil
}

// elect calls lead when the process has become the leader, and returns when it no longer is.
func (p *Process) elect(
	ctx context.Context, cancel context.CancelCauseFunc, control *rest.Config, lead func(context.Context) error,
) error {
	id, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("identity for leader election: %w", err)
	}
	client, err := kubernetes.NewForConfig(control)
	if err != nil {
		return fmt.Errorf("client of the control cluster: %w", err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := lead(ctx); err != nil {
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
