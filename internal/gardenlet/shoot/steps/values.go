package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// Values are what is known of the control plane when a pass begins, and what follows from that alone. They decide which
// steps are skipped.
type Values struct {
	Shoot        *corev1beta1.Shoot
	SeedObject   *corev1beta1.Seed
	Project      *corev1beta1.Project
	CloudProfile *corev1beta1.CloudProfile
	// GardenIdentity is unique among all gardens.
	GardenIdentity string

	// Namespace of the control plane in the seed; the technical ID of the Shoot.
	Namespace string
	// Operation is the operation in progress, and Started its start: extension objects are requested to act once per
	// operation.
	Operation corev1beta1.LastOperationType
	Started   time.Time
	// Tasks with which the Shoot was annotated when the operation began.
	Tasks []string

	// Claim says which seed runs the control plane, as of the beginning of the pass.
	Claim ownership.Claim
	// FenceTime is how long etcd keeps running without confirmation; 0 means the default of its process.
	FenceTime time.Duration

	Images Images
	DNSTTL int64
	// NewWorkerPoolHash is the feature gate of that name.
	NewWorkerPoolHash bool

	Facts      Facts
	Registered []corev1beta1.ControllerRegistration
	// Installations of extensions in the seed.
	Installations []corev1beta1.ControllerInstallation
}

// Images says where images are pulled from.
type Images struct {
	Hortus, CoreDNS, Pause string
	// KubeAPIServer and the others return the image for a Kubernetes version.
	KubeAPIServer, KubeControllerManager, KubeScheduler, KubeProxy, Kubelet func(version string) string
}

// DefaultImages are the public images.
func DefaultImages() Images { return ImagesFrom(image.Hortus(), nil) }

// ImagesFrom are the public images, with the given image of Hortus, or what the repositories have instead.
func ImagesFrom(hortus string, repositories image.Repositories) Images {
	of := func(public func(version string) string) func(version string) string {
		return func(version string) string { return repositories.Of(public(version)) }
	}
	return Images{
		Hortus: repositories.Of(hortus), CoreDNS: repositories.Of(image.CoreDNS), Pause: repositories.Of(image.Pause),
		KubeAPIServer: of(image.KubeAPIServer), KubeControllerManager: of(image.KubeControllerManager),
		KubeScheduler: of(image.KubeScheduler), KubeProxy: of(image.KubeProxy), Kubelet: of(image.Kubelet),
	}
}

// Facts are what existed when the pass began. They decide which parts of a flow apply.
type Facts struct {
	// Live: the control plane namespace exists and is not being deleted.
	Live bool
	// APIServer: the Deployment of the API server exists. APIServerReplicas is its number of replicas.
	APIServer         bool
	APIServerReplicas int32
	// Infrastructure, ControlPlane and Worker: the extension objects exist.
	Infrastructure, ControlPlane, Worker bool
	// InfrastructureStatus: the Infrastructure has a provider status that a ControlPlane can use.
	InfrastructureStatus bool
	// Restoration is the last restore of a backup that was requested; nil if there was none.
	Restoration *Restoration
}

// Observe reads the facts.
func Observe(ctx context.Context, seed client.Reader, namespace, shootName string) (Facts, error) {
	var f Facts
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	found, err := kube.Exists(ctx, seed, ns)
	if err != nil || !found {
		return f, err
	}
	f.Live = ns.DeletionTimestamp.IsZero()
	if f.Restoration, err = ReadRestoration(ctx, seed, namespace); err != nil {
		return f, err
	}
	key := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	deployment := &appsv1.Deployment{ObjectMeta: key(kubeapiserver.Name)}
	if found, err = kube.Exists(ctx, seed, deployment); err != nil {
		return f, err
	}
	f.APIServer = found && deployment.DeletionTimestamp.IsZero()
	f.APIServerReplicas = ptr.Deref(deployment.Spec.Replicas, 0)

	infrastructure := &extensionsv1alpha1.Infrastructure{ObjectMeta: key(shootName)}
	if f.Infrastructure, err = kube.Exists(ctx, seed, infrastructure); err != nil {
		return f, err
	}
	f.InfrastructureStatus = infrastructure.Status.ProviderStatus != nil
	controlPlane := &extensionsv1alpha1.ControlPlane{ObjectMeta: key(shootName)}
	if f.ControlPlane, err = kube.Exists(ctx, seed, controlPlane); err != nil {
		return f, err
	}
	f.ControlPlane = f.ControlPlane && controlPlane.DeletionTimestamp.IsZero()
	worker := &extensionsv1alpha1.Worker{ObjectMeta: key(shootName)}
	f.Worker, err = kube.Exists(ctx, seed, worker)
	return f, err
}

// Workerless Shoots have an API server and no nodes.
func (s *Values) Workerless() bool { return len(s.Shoot.Spec.Provider.Workers) == 0 }

// size of the Shoot, by the nodes that it may have.
func (s *Values) size() component.Size {
	nodes := int32(0)
	for _, w := range s.Shoot.Spec.Provider.Workers {
		nodes += w.Maximum
	}
	return component.SizeFor(nodes)
}

// Asleep: the Shoot is to be hibernated and its API server is already scaled to zero, so nothing may wake it up.
func (s *Values) Asleep() bool {
	return !s.Deleting() && s.Shoot.HibernationEnabled() && s.Facts.APIServer && s.Facts.APIServerReplicas == 0 &&
		!s.Facts.Restoration.Pending()
}

// Deleting reports whether the Shoot is being deleted.
func (s *Values) Deleting() bool { return s.Operation == corev1beta1.LastOperationTypeDelete }

// Restoring reports whether the control plane comes from another seed, or from a move that was aborted.
func (s *Values) Restoring() bool { return s.Operation == corev1beta1.LastOperationTypeRestore }

// Preparing reports whether another seed still runs the control plane, which is to be moved here.
func (s *Values) Preparing() bool {
	return s.Restoring() && s.Claim.Called == s.SeedObject.Name && s.Claim.Holder != s.SeedObject.Name
}

// SkipReadiness: a user has requested not to wait for the control plane's health.
func (s *Values) SkipReadiness() bool {
	_, ok := s.Shoot.Annotations[corev1beta1.AnnotationShootSkipReadiness]
	return ok
}

// Replicas of components of the control plane.
func (s *Values) Replicas() int32 {
	if s.Asleep() {
		return 0
	}
	return 1
}

// InternalDomain is a subdomain of the seed's internal domain, for machines and system components; "" if the seed has
// none.
func (s *Values) InternalDomain() string {
	domain := s.SeedObject.Spec.InternalDomain()
	if domain == "" {
		return ""
	}
	return s.Shoot.Name + "." + s.Project.Name + "." + domain
}

// ExternalDomain is the domain for users; "" if there is none, or if users manage its records themselves.
func (s *Values) ExternalDomain() string {
	if s.Shoot.Spec.DNS == nil || s.externallyUnmanaged() {
		return ""
	}
	return ptr.Deref(s.Shoot.Spec.DNS.Domain, "")
}

// externallyUnmanaged: the user looks after the records of the domain.
func (s *Values) externallyUnmanaged() bool {
	return s.Shoot.Spec.DNS != nil &&
		slices.ContainsFunc(s.Shoot.Spec.DNS.Providers, func(p corev1beta1.DNSProvider) bool {
			return ptr.Deref(p.Type, "") == corev1beta1.DNSUnmanaged
		})
}

// APIHosts are the host names of the API server from outside, the internal one first.
func (s *Values) APIHosts() []string {
	var hosts []string
	if d := s.InternalDomain(); d != "" {
		hosts = append(hosts, "api."+d)
	}
	if d := s.ExternalDomain(); d != "" {
		hosts = append(hosts, "api."+d)
	}
	if s.externallyUnmanaged() && s.Shoot.Spec.DNS.Domain != nil {
		hosts = append(hosts, "api."+*s.Shoot.Spec.DNS.Domain)
	}
	return hosts
}

// InternalHost is the host name by which machines reach the API server.
func (s *Values) InternalHost() string { return "api." + s.InternalDomain() }

// PodCIDR is the range of the Shoot's pods; "" for a Shoot without one.
func (s *Values) PodCIDR() string {
	if s.Shoot.Spec.Networking == nil {
		return ""
	}
	return ptr.Deref(s.Shoot.Spec.Networking.Pods, "")
}

// ServiceCIDR is the range of the Shoot's Services. Default 100.64.0.0/16.
func (s *Values) ServiceCIDR() string {
	if s.Shoot.Spec.Networking == nil || ptr.Deref(s.Shoot.Spec.Networking.Services, "") == "" {
		return defaultServiceCIDR
	}
	return *s.Shoot.Spec.Networking.Services
}

// defaultServiceCIDR is for Shoots without a range of their own; only an address for `kubernetes` is taken from it.
const defaultServiceCIDR = "100.64.0.0/16"

// SSHAccess reports whether users may log in to machines; if so, a key pair is generated for them.
func (s *Values) SSHAccess() bool { return s.Shoot.SSHAccess() }

// etcdMembers is three when the Shoot has to survive failures.
func (s *Values) etcdMembers() int {
	if cp := s.Shoot.Spec.ControlPlane; cp != nil && cp.HighAvailability != nil {
		return 3
	}
	return 1
}

// hasTask reports whether the operation carries out the task.
func (s *Values) hasTask(task string) bool { return task != "" && slices.Contains(s.Tasks, task) }

func (s *Values) extensionMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.Namespace}
}

func requireDomain(s *Values) error {
	if s.InternalDomain() == "" {
		return fmt.Errorf("seed %q has no internal domain in spec.dns.internal", s.SeedObject.Name)
	}
	return nil
}
