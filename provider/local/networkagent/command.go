package networkagent

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/provider/local/process"
)

// name of the process and its user agent.
const name = "network-agent"

// NewCommand returns the command that keeps a machine's pod network.
func NewCommand() *cobra.Command {
	opts := process.Options{HealthAddress: "127.0.0.1:10290", MetricsAddress: "0"}
	var nodeName, podCIDR, confDir string
	cmd := &cobra.Command{
		Use:   name,
		Short: "Keep CNI configuration, routes and masquerading of a machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pods, err := netip.ParsePrefix(podCIDR)
			if err != nil || !pods.Addr().Is4() {
				return fmt.Errorf("flag --pod-cidr: %q is not an IPv4 network", podCIDR)
			}
			system := &System{ConfDir: confDir, AllPods: pods}
			if err := system.Prepare(); err != nil {
				return err
			}
			mgr, err := opts.Manager(cmd.Context(), name, newScheme(), slimCache)
			if err != nil {
				return err
			}
			agent := &Agent{Client: mgr.GetClient(), Self: nodeName, Apply: system.Apply}
			if err := agent.SetupWithManager(mgr); err != nil {
				return fmt.Errorf("set up agent: %w", err)
			}
			if err := mgr.AddReadyzCheck("pod-network", agent.Ready); err != nil {
				return err
			}
			return mgr.Start(cmd.Context())
		},
	}
	opts.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&nodeName, "node-name", "", "name of the Node of this machine")
	cmd.Flags().StringVar(&podCIDR, "pod-cidr", "", "pod network of the whole cluster")
	cmd.Flags().StringVar(&confDir, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations")
	utilruntime.Must(cmd.MarkFlagRequired("node-name"))
	utilruntime.Must(cmd.MarkFlagRequired("pod-cidr"))
	return cmd
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	return scheme
}

// slimCache keeps of a Node only what the agent reads: one agent runs on every machine and caches all Nodes.
func slimCache(opts *ctrl.Options) {
	opts.Cache = cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: func(obj any) (any, error) {
			node, ok := obj.(*corev1.Node)
			if !ok {
				return obj, nil
			}
			slim := &corev1.Node{}
			slim.Name, slim.UID, slim.ResourceVersion = node.Name, node.UID, node.ResourceVersion
			slim.Spec.PodCIDR, slim.Spec.PodCIDRs = node.Spec.PodCIDR, node.Spec.PodCIDRs
			slim.Status.Addresses = node.Status.Addresses
			return slim, nil
		}},
	}}
}
