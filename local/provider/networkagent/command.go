package networkagent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"hortus.dev/hortus/local/provider/networkagent/hook"
	"hortus.dev/hortus/local/provider/networkagent/policy"
	"hortus.dev/hortus/local/provider/process"
)

// name of the process and its user agent.
const name = "network-agent"

// metadata is the network of link-local addresses (RFC 3927), in which clouds have their metadata services. Routers
// must not forward to it; its services identify the machine, and pods must not use them.
var metadata = netip.MustParsePrefix("169.254.0.0/16")

// options are the flags of the command.
type options struct {
	process.Options
	nodeName, podCIDR       string
	confDir, binDir, plugin string
	policiesOnly            bool
}

// NewCommand returns the command that keeps a machine's pod network.
func NewCommand() *cobra.Command {
	o := &options{Options: process.Options{HealthAddress: "127.0.0.1:10290", MetricsAddress: "0"}}
	cmd := &cobra.Command{
		Use:   name,
		Short: "Keep CNI configuration, routes and masquerading of a machine, and enforce network policies",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.nodeName, "node-name", "", "name of the Node of this machine")
	cmd.Flags().StringVar(&o.podCIDR, "pod-cidr", "",
		"pod network of the whole cluster; required unless --policies-only is set")
	cmd.Flags().StringVar(&o.confDir, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations")
	cmd.Flags().StringVar(&o.binDir, "cni-bin-dir", "/opt/cni/bin",
		"directory of CNI plugins, where "+hook.PluginName+" is installed")
	cmd.Flags().StringVar(&o.plugin, "cni-plugin", "/usr/local/bin/"+hook.PluginName,
		"program that is installed as CNI plugin "+hook.PluginName)
	cmd.Flags().BoolVar(&o.policiesOnly, "policies-only", false,
		"enforce network policies and leave CNI configuration, routes and masquerading to others")
	utilruntime.Must(cmd.MarkFlagRequired("node-name"))
	return cmd
}

func (o *options) run(ctx context.Context) error {
	system := &System{ConfDir: o.confDir}
	var pods netip.Prefix
	if !o.policiesOnly {
		var err error
		if pods, err = netip.ParsePrefix(o.podCIDR); err != nil || !pods.Addr().Is4() {
			return fmt.Errorf("--pod-cidr: invalid value: %q (an IPv4 range such as 10.0.0.0/16)", o.podCIDR)
		}
	}
	// Before a configuration names the plugin.
	if err := installPlugin(o.plugin, o.binDir); err != nil {
		return err
	}
	if o.policiesOnly {
		filterBridges()
	} else {
		system.AllPods = pods
		if err := system.Prepare(); err != nil {
			return err
		}
	}
	mgr, err := o.Manager(ctx, name, newScheme(), func(opts *ctrl.Options) { slimCache(opts, o.nodeName) })
	if err != nil {
		return err
	}
	if !o.policiesOnly {
		agent := &Agent{Client: mgr.GetClient(), Self: o.nodeName, Apply: system.Apply}
		if err := agent.SetupWithManager(mgr); err != nil {
			return fmt.Errorf("set up agent: %w", err)
		}
		if err := mgr.AddReadyzCheck("pod-network", agent.Ready); err != nil {
			return err
		}
	}
	table := policy.Table{}
	policies := &policy.Controller{
		Client: mgr.GetClient(), API: mgr.GetAPIReader(), Clock: clock.RealClock{}, Kernel: table, Node: o.nodeName,
		Refused: []netip.Prefix{metadata},
		Metrics: policy.NewMetrics(metrics.Registry, table.Refused),
	}
	if err := policies.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("set up policies: %w", err)
	}
	if err := mgr.AddReadyzCheck("network-policies", policies.Ready); err != nil {
		return err
	}
	server := &hook.Server{Path: hook.SocketPath, Confine: policies.Confine, Release: policies.Release}
	if err := mgr.Add(server); err != nil { // The manager starts it once the caches are filled.
		return fmt.Errorf("set up server of the CNI plugin: %w", err)
	}
	return mgr.Start(ctx)
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(networkingv1.AddToScheme(scheme))
	return scheme
}

// slimCache keeps only the fields that the agent reads: one agent runs on every machine and caches all Nodes and Pods.
func slimCache(opts *ctrl.Options, node string) {
	opts.Cache.ByObject = policy.CacheOptions(node)
	opts.Cache.ByObject[&corev1.Node{}] = cache.ByObject{Transform: func(obj any) (any, error) {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return obj, nil
		}
		slim := &corev1.Node{}
		slim.Name, slim.UID, slim.ResourceVersion = node.Name, node.UID, node.ResourceVersion
		slim.Spec.PodCIDR, slim.Spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
		slim.Status.Addresses = node.Status.Addresses
		return slim, nil
	}}
}
