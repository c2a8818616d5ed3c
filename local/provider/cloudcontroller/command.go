package cloudcontroller

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/local/provider/csi/controller"
	"hortus.dev/hortus/local/provider/process"
)

// name of the process, its user agent and its Lease.
const name = "cloud-controller-manager"

// NewCommand returns the command that runs the controllers of this package.
func NewCommand() *cobra.Command {
	opts := process.Options{HealthAddress: ":8081", MetricsAddress: "0"}
	var credentialsDir, cluster string
	var volumes bool
	cmd := &cobra.Command{
		Use:   name,
		Short: "Connect a cluster with the local cloud its nodes run on",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := credentials.FromDir(credentialsDir)
			if err != nil {
				return err
			}
			api, err := cloud.New(cfg)
			if err != nil {
				return err
			}
			mgr, err := opts.Manager(cmd.Context(), name, NewScheme(), SlimCache)
			if err != nil {
				return err
			}
			if err := (&Nodes{Client: mgr.GetClient(), Cloud: api}).SetupWithManager(mgr); err != nil {
				return fmt.Errorf("set up node controller: %w", err)
			}
			services := &Services{Client: mgr.GetClient(), Cloud: api, Cluster: cluster, Recorder: mgr.GetEventRecorder(name)}
			if err := services.SetupWithManager(mgr); err != nil {
				return fmt.Errorf("set up service controller: %w", err)
			}
			if volumes {
				if err := controller.SetupWithManager(mgr, api, cluster, name); err != nil {
					return fmt.Errorf("set up volume controllers: %w", err)
				}
			}
			return mgr.Start(cmd.Context())
		},
	}
	opts.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&credentialsDir, "credentials-dir", "/etc/cloudprovider",
		"directory with the files endpoint, accessKey, secretKey and ca.crt")
	cmd.Flags().StringVar(&cluster, "cluster-name", "", "name of the cluster, a tag on its load balancers and volumes")
	cmd.Flags().BoolVar(&volumes, "volumes", false, "make, attach and delete volumes of the cloud for PersistentVolumes")
	utilruntime.Must(cmd.MarkFlagRequired("cluster-name"))
	return cmd
}

// NewScheme returns a scheme with all kinds the controllers read or write.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	return scheme
}

// SlimCache drops the fields that the controllers never read, since the cache of a large cluster takes most of the
// memory of the process.
func SlimCache(opts *ctrl.Options) {
	opts.Cache = cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Node{}: {Transform: func(obj any) (any, error) {
			if node, ok := obj.(*corev1.Node); ok {
				node.ManagedFields, node.Status.Images = nil, nil
			}
			return obj, nil
		}},
		&corev1.Service{}:            {Transform: cache.TransformStripManagedFields()},
		&discoveryv1.EndpointSlice{}: {Transform: cache.TransformStripManagedFields()},
	}, DefaultTransform: cache.TransformStripManagedFields()}
	// One read per claim and per attachment does not justify a watch.
	opts.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
		&storagev1.StorageClass{}, &storagev1.CSINode{},
	}}}
}
