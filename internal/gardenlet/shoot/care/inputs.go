package care

import (
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/etcdbackup"
)

// Observed is everything that the checks depend on.
type Observed struct {
	Now   time.Time
	Shoot *corev1beta1.Shoot
	// RolledOut is the Shoot as it was when its last operation began; nil if nothing has changed since.
	RolledOut *corev1beta1.Shoot

	// Control plane namespace.
	Deployments []appsv1.Deployment
	Etcd        *appsv1.StatefulSet // Nil if missing.
	Backups     *Backups            // Nil if etcd has none, or is scaled down.
	Resources   []resourcesv1alpha1.ManagedResource
	Reports     []Report
	CAs         []corev1.Secret // Persisted certificate authorities.

	MachineDeployments []machinev1alpha1.MachineDeployment
	Machines           []machinev1alpha1.Machine
	// ConfigChecksums are the checksums that nodes must have applied, by key of the configuration.
	ConfigChecksums map[string]string

	// The API server: HealthError is why it could not be queried, HealthStatus the HTTP status of its answer.
	HealthError  error
	HealthStatus int
	// ServerUntil is the expiration of the API server's serving certificate, ClientUntil that of the gardenlet's client
	// certificate. Zero: not known.
	ServerUntil, ClientUntil time.Time

	// The Shoot, only if its API server answers. Users can store any amount of objects there, so only what the checks need
	// is kept.
	Nodes       []Node
	NodeLeases  []Lease // Of kubelets.
	AgentLeases []Lease // Of node agents.
	TunnelPod   bool    // A pod of the tunnel is running.
	TunnelError error
	Webhooks    Webhooks
	Conversions Names // CustomResourceDefinitions that cannot be migrated to one version without their webhook.
	// TooMuch has the kinds of which there are more objects than are read, with the reason.
	TooMuch map[Kind]string
}

// Backups is the status reported by the process that takes backups of etcd.
type Backups struct {
	Status etcdbackup.Status
	// Error is why Status could not be read.
	Error error
}

// Report is a condition of an extension object.
type Report struct {
	Kind, Name, Type string // Of the extension object; Type is the extension's.
	Condition        corev1beta1.Condition
	// Heartbeat is the last sign of life of the extension; zero if it is not known.
	Heartbeat time.Time
}

// Settings of the controller.
type Settings struct {
	Thresholds map[corev1beta1.ConditionType]time.Duration
	// StaleAfter is the age of a heartbeat above which a report is stale; 0 disables the check.
	StaleAfter time.Duration
}

func (o *Observed) workerless() bool { return len(o.Shoot.Spec.Provider.Workers) == 0 }

// hibernated: requested and complete.
func (o *Observed) hibernated() bool {
	h := o.Shoot.Spec.Hibernation
	return h != nil && h.Enabled != nil && *h.Enabled && o.Shoot.Status.IsHibernated
}

// answers reports whether the Shoot could be read through its API server.
func (o *Observed) answers() bool { return o.HealthError == nil && o.HealthStatus == 200 }

func (o *Observed) deployment(name string) *appsv1.Deployment {
	for i := range o.Deployments {
		if o.Deployments[i].Name == name {
			return &o.Deployments[i]
		}
	}
	return nil
}
