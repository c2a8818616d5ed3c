// Package process provides the common parts of all controller processes of the provider: flags and a controller-runtime
// manager.
package process

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"hortus.dev/hortus/internal/kube"
)

// Options are the flags of a controller process.
type Options struct {
	Kubeconfig              string // Path; empty means the cluster the process runs in.
	HealthAddress           string // Address of /healthz and /readyz; "0" switches them off.
	MetricsAddress          string // Address of /metrics; "0" switches it off.
	LeaderElect             bool
	LeaderElectionNamespace string // Empty means the namespace of the pod.
}

// AddFlags adds the flags to fs, with the current values as defaults.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"path of a kubeconfig; empty means the cluster the process runs in")
	fs.StringVar(&o.HealthAddress, "health-address", o.HealthAddress,
		`address of /healthz and /readyz; "0" switches them off`)
	fs.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, `address of /metrics; "0" switches it off`)
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "elect a leader, so that several replicas may run")
	fs.StringVar(&o.LeaderElectionNamespace, "leader-elect-namespace", o.LeaderElectionNamespace,
		"namespace of the leader's Lease; empty means the namespace of the pod")
}

// RESTConfig returns the configuration of the cluster.
func (o *Options) RESTConfig(userAgent string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1 // The API server's priority and fairness protects it; throttling here would only add delays.
	return rest.AddUserAgent(cfg, userAgent), nil
}

// Manager waits for the API server and returns a manager for a process of the given name with health endpoints; tweak
// may change its options.
func (o *Options) Manager(
	ctx context.Context, name string, scheme *runtime.Scheme, tweak func(*ctrl.Options),
) (ctrl.Manager, error) {
	log := Logger(name)
	ctrl.SetLogger(log)
	cfg, err := o.RESTConfig(name)
	if err != nil {
		return nil, err
	}
	if err := kube.WaitForAPI(ctx, cfg, "/readyz"); err != nil {
		return nil, err
	}
	opts := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        log,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              name,
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
	}
	if tweak != nil {
		tweak(&opts)
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("set up manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, nil
}

// Logger returns the logger of a process; it writes to standard error in klog's format.
func Logger(name string) logr.Logger { return klog.Background().WithName(name) }
