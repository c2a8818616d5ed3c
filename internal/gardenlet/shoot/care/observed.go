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

// Observed is everything that the checks look at.
type Observed struct {
	Now   time.Time
	Shoot *corev1beta1.Shoot

	// Control plane namespace.
	Deployments []appsv1.Deployment
	Etcd        *appsv1.StatefulSet // Nil if missing.
	Backups     *Backups            // Nil if etcd has none, or is scaled down.
	Resources   []resourcesv1alpha1.ManagedResource
	Reports     []Report
	CAs         []corev1.Secret // Persisted certificate authorities.

	MachineDeployments []machinev1alpha1.MachineDeployment
	Machines           []machinev1alpha1.Machine
	// ConfigChecksums are those that nodes have to have applied, by key of the configuration.
	ConfigChecksums map[string]string

	// The API server: HealthError is why it could not be asked, HealthStatus the HTTP status it answered with.
	HealthError  error
	HealthStatus int
	// ServerUntil is the end of the certificate that the API server has shown, ClientUntil that of the gardenlet as its
	// client. Zero: not known.
	ServerUntil, ClientUntil time.Time

	// In the Shoot; only if its API server answers. Its users can fill it with anything, so only what the checks need is
	// kept.
	Nodes       []Node
	NodeLeases  []Lease // Of kubelets.
	AgentLeases []Lease // Of node agents.
	TunnelPod   bool    // A pod of the tunnel runs.
	TunnelError error
	Webhooks    Webhooks
	Conversions Names // Definitions that cannot be moved to one version without their webhook.
	// TooMuch says of what there is more than is read, and why that is so.
	TooMuch map[Kind]string
}

// Backups is what the process said that takes backups of etcd.
type Backups struct {
	Status etcdbackup.Status
	// Error is why Status could not be read.
	Error error
}

// Report is a condition of an extension object.
type Report struct {
	Kind, Name, Type string // Of the extension object; Type is the extension's.
	Condition        corev1beta1.Condition
	// Heartbeat is when the extension showed that it lives; zero if nobody knows.
	Heartbeat time.Time
}

// Settings of the controller.
type Settings struct {
	Thresholds map[corev1beta1.ConditionType]time.Duration
	// StaleAfter is the age of a heartbeat beyond which a report is not believed; 0 switches the check off.
	StaleAfter time.Duration
}

func (o *Observed) workerless() bool { return len(o.Shoot.Spec.Provider.Workers) == 0 }

// hibernated: asked for and reached.
func (o *Observed) hibernated() bool {
	h := o.Shoot.Spec.Hibernation
	return h != nil && h.Enabled != nil && *h.Enabled && o.Shoot.Status.IsHibernated
}

// answers tells whether the API server could be used to look into the Shoot.
func (o *Observed) answers() bool { return o.HealthError == nil && o.HealthStatus == 200 }

func (o *Observed) deployment(name string) *appsv1.Deployment {
	for i := range o.Deployments {
		if o.Deployments[i].Name == name {
			return &o.Deployments[i]
		}
	}
	return nil
}
