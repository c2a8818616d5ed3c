package resourcemanager

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os/signal"
	"slices"
	"syscall"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	admission "sigs.k8s.io/controller-runtime/pkg/webhook"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
	"hortus.dev/hortus/internal/resourcemanager/managedresource"
	"hortus.dev/hortus/internal/resourcemanager/networkpolicy"
	"hortus.dev/hortus/internal/resourcemanager/webhook"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
	"hortus.dev/hortus/internal/webhook/certificate"
)

const (
	// targetQPS and targetBurst bound the requests to the target. Applying a whole control plane's objects once is about
	// 150 requests and should not be held up by the client's default of 20 a second.
	targetQPS   = 100
	targetBurst = 200
)

// options are the flags.
type options struct {
	sourceKubeconfig, targetKubeconfig string
	namespace, class, clusterID        string
	allNamespaces                      bool
	controllers                        []string
	syncPeriod                         time.Duration
	minDelay, maxDelay                 time.Duration
	leaderElect                        bool
	healthAddr, metricsAddr            string
	webhookPort                        int
	webhookCert, webhookKey            string
	webhooks                           webhook.Settings
	clusterNetworks, blockedNetworks   []netip.Prefix
	metrics                            *managedresource.Metrics // Nil in tests, which run several managers.
}

// enabled reports whether a controller is selected.
func (o options) enabled(name string) bool {
	return slices.Contains(o.controllers, name) || slices.Contains(o.controllers, "*") &&
		!slices.Contains(o.controllers, "-"+name)
}

// watched are the namespaces of the source cluster whose objects are served; nil is all.
func (o options) watched() map[string]cache.Config {
	if o.allNamespaces || o.namespace == "" {
		return nil
	}
	return map[string]cache.Config{o.namespace: {}}
}

// NewCommand returns `resource-manager`.
func NewCommand() *cobra.Command {
	var o options
	var clusterNetworks, blockedNetworks []string
	var systemComponentTolerations string
	cmd := &cobra.Command{
		Use:   "resource-manager",
		Short: "Apply the objects of ManagedResources to a cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("all-namespaces") {
				o.allNamespaces = o.class != ""
			}
			var err1, err2 error
			o.clusterNetworks, err1 = prefixes("cluster-networks", clusterNetworks)
			o.blockedNetworks, err2 = prefixes("blocked-networks", blockedNetworks)
			var err3 error
			o.webhooks.SystemComponentTolerations, err3 = tolerations(systemComponentTolerations)
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.sourceKubeconfig, "source-kubeconfig", "",
		"kubeconfig of the cluster with the ManagedResources; empty is in-cluster")
	f.StringVar(&o.targetKubeconfig, "target-kubeconfig", "",
		"kubeconfig of the cluster to act on; empty is the source cluster")
	f.StringVar(&o.namespace, "namespace", "", "namespace of the ManagedResources, of the Machines and of the lease")
	f.BoolVar(&o.allNamespaces, "all-namespaces", false,
		"serve the ManagedResources of all namespaces; default true if a class is given")
	f.StringVar(&o.class, "class", "", "class of the ManagedResources to serve; empty is that of Shoots")
	f.StringVar(&o.clusterID, "cluster-id", "",
		"name of the source cluster in origin annotations, where several share a target")
	f.StringSliceVar(&o.controllers, "controllers", []string{"*"}, "controllers to run: *, or some of "+
		fmt.Sprint(controllerNames()))
	f.DurationVar(&o.syncPeriod, "sync-period", time.Minute, "longest time between two checks of a ManagedResource")
	f.DurationVar(&o.minDelay, "node-agent-min-delay", 0, "delay of the first node-agent")
	f.DurationVar(&o.maxDelay, "node-agent-max-delay", 5*time.Minute, "upper bound of the node-agents' delays")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "run only while holding the lease; needed with several replicas")
	f.StringSliceVar(
		&clusterNetworks, "cluster-networks", nil,
		"CIDRs of the seed's own pods, services and nodes; network policies keep them apart from other private networks",
	)
	f.StringSliceVar(&blockedNetworks, "blocked-networks", nil, "CIDRs that network policies keep control planes from")
	f.IntVar(&o.webhookPort, "webhook-port", configuration.Port, "port for admission webhooks; 0 turns them off")
	f.StringVar(&o.webhookCert, "webhook-cert-file", "",
		"PEM certificate of the webhooks; without it those of a Shoot are not served, and a seed keeps its own")
	f.StringVar(&systemComponentTolerations, "system-component-tolerations", "[]",
		"JSON list of the tolerations that pods of the system in a Shoot get")
	f.StringVar(&o.webhooks.APIServerHost, "kubernetes-service-host", "",
		"host name of the API server for pods of the system in a Shoot; empty leaves them the Service kubernetes")
	f.StringVar(&o.webhookKey, "webhook-key-file", "", "PEM key of the webhooks")
	f.StringVar(&o.healthAddr, "health-address", ":8081", "address for /healthz and /readyz")
	f.StringVar(&o.metricsAddr, "metrics-address", "127.0.0.1:8080", "address for /metrics; 0 turns it off")
	return cmd
}

// prefixes parses the values of a flag, all of them.
func prefixes(flag string, values []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, v := range values {
		p, err := netip.ParsePrefix(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			continue
		}
		out = append(out, p.Masked())
	}
	return out, errors.Join(errs...)
}

// tolerations parses the value of the flag.
func tolerations(value string) ([]corev1.Toleration, error) {
	var out []corev1.Toleration
	if err := json.Unmarshal([]byte(value), &out); err != nil {
		return nil, fmt.Errorf("--system-component-tolerations: %w", err)
	}
	return out, nil
}

// NewScheme returns the types the controllers use.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme), machinev1alpha1.AddToScheme(scheme),
	)
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(klog.Background().WithName("resource-manager"))
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	source, err := load(o.sourceKubeconfig, "source")
	if err != nil {
		return err
	}
	target := source
	if o.targetKubeconfig != "" {
		if target, err = load(o.targetKubeconfig, "target"); err != nil {
			return err
		}
	}
	// The target starts at the same time as this process does.
	if err := kube.WaitForAPI(ctx, target, "/readyz"); err != nil {
		return err
	}
	o.metrics = managedresource.NewMetrics(ctrlmetrics.Registry)
	mgr, err := newManager(o, source, target)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager builds everything but starts nothing.
func newManager(o options, source, target *rest.Config) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	target = rest.CopyConfig(target)
	target.QPS, target.Burst = targetQPS, targetBurst
	keeper := &certificate.Keeper{
		Clock: clock.RealClock{}, Namespace: o.namespace, Secret: configuration.SecretName,
		Service: configuration.ServiceName, Configuration: configuration.Name,
	}
	getCertificate := keeper.GetCertificate
	if o.webhookCert != "" {
		// A renewed certificate is in a Secret with another name, so that the pod is replaced.
		pair, err := tls.LoadX509KeyPair(o.webhookCert, o.webhookKey)
		if err != nil {
			return nil, fmt.Errorf("load certificate of the webhooks: %w", err)
		}
		getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	mgr, err := ctrl.NewManager(source, manager.Options{
		Scheme: scheme,
		WebhookServer: admission.NewServer(admission.Options{
			Port: o.webhookPort, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.MinVersion, c.GetCertificate = tls.VersionTLS13, getCertificate
			}},
		}),
		Cache: cache.Options{
			DefaultNamespaces: o.watched(),
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          sourceCache(),
		},
		// Only tests run several managers in one process.
		Controller:                    config.Controller{SkipNameValidation: ptr.To(true)},
		HealthProbeBindAddress:        o.healthAddr,
		Metrics:                       metricsserver.Options{BindAddress: o.metricsAddr},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName(o.class),
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		// A control plane's managers renew their leases in the seed all the time; half the usual rate still lets a
		// standby take over within the minute.
		LeaseDuration: ptr.To(40 * time.Second),
		RenewDeadline: ptr.To(30 * time.Second),
		RetryPeriod:   ptr.To(5 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	remote, err := cluster.New(target, func(c *cluster.Options) {
		c.Scheme = scheme
		c.Cache = targetCache(c.Cache)
	})
	if err != nil {
		return nil, fmt.Errorf("connect to target: %w", err)
	}
	if err := mgr.Add(remote); err != nil {
		return nil, fmt.Errorf("add target: %w", err)
	}
	direct, err := client.New(target, client.Options{Scheme: scheme, Mapper: remote.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("create target client: %w", err)
	}
	if err := addControllers(clusters{
		mgr: mgr, source: source, target: remote, direct: direct, certificate: keeper, options: o,
	}); err != nil {
		return nil, err
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("add health checks: %w", err)
	}
	return mgr, nil
}

// sourceCache limits what is cached of big kinds.
func sourceCache() map[client.Object]cache.ByObject {
	out := networkpolicy.Cache()
	maps.Copy(out, machineaccess.SourceCache())
	return out
}

func leaseName(class string) string {
	if class == "" {
		return "gardener-resource-manager"
	}
	return "gardener-resource-manager-" + class
}

func load(kubeconfig, which string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load %s kubeconfig: %w", which, err)
	}
	return config, nil
}
