package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Bastion is a machine through which the machines of a Shoot are reached by SSH for a while.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Bastion struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec names the Shoot and who may connect. Immutable, except ingress.
	Spec BastionSpec `json:"spec"`
	// status is how to connect, and until when.
	// +optional
	Status BastionStatus `json:"status,omitempty"`
}

// Lifetime of a Bastion.
const (
	// BastionTimeToLive is how long a Bastion exists after its creation, or after the last operation keepalive.
	BastionTimeToLive = time.Hour
	// BastionMaxLifetime is how long a Bastion exists at most after its creation.
	BastionMaxLifetime = 24 * time.Hour
)

// BastionReady is the type of the condition that reports whether a Bastion takes connections.
const BastionReady gardencorev1beta1.ConditionType = "BastionReady"

// BastionList is a list of Bastions.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BastionList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Bastions.
	Items []Bastion `json:"items"`
}

// BastionSpec names the Shoot and who may connect.
type BastionSpec struct {
	// shootRef names the Shoot in the same namespace.
	ShootRef corev1.LocalObjectReference `json:"shootRef"`
	// seedName is the Seed of the Shoot. Set by admission.
	// +optional
	SeedName *string `json:"seedName,omitempty"`
	// providerType is that of the Shoot. Set by admission.
	// +optional
	ProviderType *string `json:"providerType,omitempty"`
	// sshPublicKey of the user, as in a file of authorized keys. Immutable.
	SSHPublicKey string `json:"sshPublicKey"`
	// ingress lists who may connect. At least one.
	Ingress []BastionIngressPolicy `json:"ingress"`
}

// BastionIngressPolicy is who may connect to a Bastion.
type BastionIngressPolicy struct {
	// ipBlock is a range of addresses.
	IPBlock networkingv1.IPBlock `json:"ipBlock"`
}

// BastionStatus is how to connect to a Bastion, and until when.
type BastionStatus struct {
	// ingress is the address of the machine.
	// +optional
	Ingress *corev1.LoadBalancerIngress `json:"ingress,omitempty"`
	// conditions of the Bastion. BastionReady reports whether it takes connections.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []gardencorev1beta1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// lastHeartbeatTimestamp is the time of the creation, or of the last operation keepalive. Set by the API server.
	// +optional
	LastHeartbeatTimestamp *metav1.Time `json:"lastHeartbeatTimestamp,omitempty"`
	// expirationTimestamp is when the Bastion is deleted: an hour after the last heartbeat, at most 24 hours after the
	// creation. Set by the API server.
	// +optional
	ExpirationTimestamp *metav1.Time `json:"expirationTimestamp,omitempty"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
}

// Address is the address or host name to connect to, "" if there is none yet.
func (s *BastionStatus) Address() string {
	switch {
	case s.Ingress == nil:
		return ""
	case s.Ingress.IP != "":
		return s.Ingress.IP
	}
	return s.Ingress.Hostname
}
