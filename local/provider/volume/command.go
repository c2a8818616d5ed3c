package volume

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/local/provider/process"
)

// name of the process and its user agent.
const name = "volume-provisioner"

// NewCommand returns the command that provides volumes on one node.
func NewCommand() *cobra.Command {
	opts := process.Options{HealthAddress: ":8081", MetricsAddress: "0"}
	var node Node
	cmd := &cobra.Command{
		Use:   name,
		Short: "Provide PersistentVolumes that are directories on this node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			mgr, err := opts.Manager(cmd.Context(), name, newScheme(), slimCache)
			if err != nil {
				return err
			}
			self := &corev1.Node{}
			if err := mgr.GetAPIReader().Get(cmd.Context(), client.ObjectKey{Name: node.NodeName}, self); err != nil {
				return fmt.Errorf("read node %q: %w", node.NodeName, err)
			}
			node.Hostname = cmp.Or(self.Labels[corev1.LabelHostname], node.NodeName)
			node.Dir = cmp.Or(node.Dir, node.Root)
			node.Client, node.Recorder = mgr.GetClient(), mgr.GetEventRecorder(name)
			if err := SetupWithManager(mgr, node); err != nil {
				return fmt.Errorf("set up controllers: %w", err)
			}
			return mgr.Start(cmd.Context())
		},
	}
	opts.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&node.NodeName, "node-name", "", "name of the Node the process runs on")
	cmd.Flags().StringVar(&node.Root, "root", "/var/lib/hortus-volumes", "directory of all volumes on the node")
	cmd.Flags().StringVar(&node.Dir, "dir", "", "the same directory as the process sees it; empty means the same path")
	utilruntime.Must(cmd.MarkFlagRequired("node-name"))
	return cmd
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
}

func slimCache(opts *ctrl.Options) {
	opts.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	// A few reads per claim do not justify a watch on classes.
	opts.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&storagev1.StorageClass{}}}}
}
