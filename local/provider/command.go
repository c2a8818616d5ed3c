package provider

import (
	"context"
	"errors"
	"fmt"
	"os"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/heartbeat"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/local/provider/backup"
	"hortus.dev/hortus/local/provider/bastion"
	"hortus.dev/hortus/local/provider/containerruntime"
	"hortus.dev/hortus/local/provider/controlplane"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/local/provider/dnsrecord"
	"hortus.dev/hortus/local/provider/infrastructure"
	"hortus.dev/hortus/local/provider/network"
	"hortus.dev/hortus/local/provider/operatingsystemconfig"
	"hortus.dev/hortus/local/provider/process"
	"hortus.dev/hortus/local/provider/v1alpha1"
	localworker "hortus.dev/hortus/local/provider/worker"
)

// name of the process, its user agent and its Lease.
const name = "provider-local"

// Options are the settings of the controllers of the extension.
type Options struct {
	Image string // Of what the extension deploys: this program.
}

// NewCommand returns the command that runs the extension in a seed.
func NewCommand() *cobra.Command {
	flags := process.Options{HealthAddress: ":8081", MetricsAddress: "127.0.0.1:8080"}
	opts := Options{Image: image.Hortus()}
	namespace := os.Getenv("POD_NAMESPACE")
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run Shoots on the local cloud",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if namespace == "" {
				return errors.New("--namespace: the namespace of the extension is required")
			}
			hooks := newWebhooks(namespace, opts.Image)
			mgr, err := flags.Manager(cmd.Context(), name, NewScheme(), func(o *ctrl.Options) {
				SlimCache(o)
				hooks.configure(o)
			})
			if err != nil {
				return err
			}
			if err := AddToManager(mgr, opts); err != nil {
				return err
			}
			if err := hooks.setup(mgr); err != nil {
				return err
			}
			if err := mgr.Add(&heartbeat.Beat{
				Client: mgr.GetClient(), Clock: clock.RealClock{}, Namespace: namespace, Holder: name,
			}); err != nil {
				return fmt.Errorf("set up heartbeat: %w", err)
			}
			return mgr.Start(cmd.Context())
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&opts.Image, "image", opts.Image, "image of this program, for what it deploys")
	cmd.Flags().StringVar(&namespace, "namespace", namespace,
		"namespace of the extension, for its heartbeat and its webhooks; by default $POD_NAMESPACE")
	return cmd
}

// NewScheme returns a scheme with all kinds the extension reads or writes.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
		machinev1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// SlimCache makes a manager read Secrets and the like directly: caching all of a seed would cost far more than a read
// per operation.
func SlimCache(opts *ctrl.Options) {
	opts.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	opts.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
		&corev1.Secret{}, &corev1.Namespace{}, &coordinationv1.Lease{}, &extensionsv1alpha1.Cluster{},
		&resourcesv1alpha1.ManagedResource{},
	}}}
}

// AddToManager registers all controllers of the extension.
func AddToManager(mgr ctrl.Manager, opts Options) error {
	c, clk, clouds := mgr.GetClient(), clock.RealClock{}, &credentials.Clients{}
	machines := &worker.Actuator{Client: c, Clock: clk, Provider: localworker.Provider{
		Client: c, Cloud: cloudFor[localworker.Images](clouds),
	}}
	controlPlanes := &controlplane.Actuator{Client: c, Image: opts.Image}

	all := []struct {
		kind  string
		setup func() error
	}{
		{extensionsv1alpha1.InfrastructureKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.Infrastructure]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.Infrastructure{},
				Kind: extensionsv1alpha1.InfrastructureKind, Type: v1alpha1.Type,
				Actuator: &infrastructure.Actuator{Client: c, Cloud: cloudFor[infrastructure.Cloud](clouds)},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.ControlPlaneKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.ControlPlane]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.ControlPlane{},
				Kind: extensionsv1alpha1.ControlPlaneKind, Type: v1alpha1.Type, Actuator: controlPlanes,
			}).SetupWithManager(mgr, controlPlanes.Watch)
		}},
		{extensionsv1alpha1.ControlPlaneKind + " (health)", func() error {
			return (&controlplane.Health{Client: c, Clock: clk}).SetupWithManager(mgr)
		}},
		{extensionsv1alpha1.WorkerKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.Worker]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.Worker{},
				Kind: extensionsv1alpha1.WorkerKind, Type: v1alpha1.Type, Actuator: machines,
			}).SetupWithManager(mgr, machines.Watch)
		}},
		{extensionsv1alpha1.OperatingSystemConfigKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.OperatingSystemConfig]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.OperatingSystemConfig{},
				Kind: extensionsv1alpha1.OperatingSystemConfigKind, Type: operatingsystemconfig.Type,
				Actuator: &operatingsystemconfig.Actuator{Client: c},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.NetworkKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.Network]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.Network{},
				Kind: extensionsv1alpha1.NetworkKind, Type: network.Type,
				Actuator: &network.Actuator{Client: c, Image: opts.Image},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.ContainerRuntimeKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.ContainerRuntime]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.ContainerRuntime{},
				Kind: extensionsv1alpha1.ContainerRuntimeKind, Type: containerruntime.Type,
				Actuator: &containerruntime.Actuator{Client: c},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.BastionKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.Bastion]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.Bastion{},
				Kind: extensionsv1alpha1.BastionKind, Type: v1alpha1.Type,
				Actuator: &bastion.Actuator{Client: c, Cloud: cloudFor[bastion.Cloud](clouds)},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.DNSRecordKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.DNSRecord]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.DNSRecord{},
				Kind: extensionsv1alpha1.DNSRecordKind, Type: v1alpha1.Type, Classes: allClasses,
				Actuator: &dnsrecord.Actuator{Client: c, Clock: clk, Cloud: cloudFor[dnsrecord.Records](clouds)},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.BackupBucketKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.BackupBucket]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.BackupBucket{},
				Kind: extensionsv1alpha1.BackupBucketKind, Type: v1alpha1.Type, Classes: allClasses,
				SecretRef: func(o *extensionsv1alpha1.BackupBucket) *corev1.SecretReference { return &o.Spec.SecretRef },
				Actuator:  &backup.BucketActuator{Client: c, Cloud: cloudFor[backup.Buckets](clouds)},
			}).SetupWithManager(mgr, nil)
		}},
		{extensionsv1alpha1.BackupEntryKind, func() error {
			return (&extension.Reconciler[*extensionsv1alpha1.BackupEntry]{
				Client: c, Clock: clk, Prototype: &extensionsv1alpha1.BackupEntry{},
				Kind: extensionsv1alpha1.BackupEntryKind, Type: v1alpha1.Type, Classes: allClasses,
				SecretRef: func(o *extensionsv1alpha1.BackupEntry) *corev1.SecretReference { return &o.Spec.SecretRef },
				Actuator:  &backup.EntryActuator{Client: c, Cloud: cloudFor[backup.Buckets](clouds)},
			}).SetupWithManager(mgr, nil)
		}},
	}
	for _, one := range all {
		if err := one.setup(); err != nil {
			return fmt.Errorf("set up controller of kind %s: %w", one.kind, err)
		}
	}
	return nil
}

// allClasses are served for kinds that a seed or the garden may need for itself.
var allClasses = []extensionsv1alpha1.Class{
	extensionsv1alpha1.ClassShoot, extensionsv1alpha1.ClassSeed, extensionsv1alpha1.ClassGarden,
}

// cloudFor gives an actuator the part of the cloud it declares. A part the client lacks is a programming error.
func cloudFor[T any](
	clouds *credentials.Clients,
) func(context.Context, client.Reader, corev1.SecretReference) (T, error) {
	return func(ctx context.Context, c client.Reader, ref corev1.SecretReference) (T, error) {
		var none T
		api, err := clouds.For(ctx, c, ref)
		if err != nil {
			return none, err
		}
		return any(api).(T), nil
	}
}
