package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DNSRecordKind is the kind of a [DNSRecord].
const DNSRecordKind = "DNSRecord"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=dnsrecords,scope=Namespaced,shortName=dns,singular=dnsrecord
// +kubebuilder:printcolumn:name=Type,JSONPath=".spec.type",type=string,description="The extension that acts on the object."
// +kubebuilder:printcolumn:name="Domain Name",JSONPath=".spec.name",type=string,description="Domain Name of the object."
// +kubebuilder:printcolumn:name="Record Type",JSONPath=".spec.recordType",type=string,description="Record Type of the object."
// +kubebuilder:printcolumn:name=Status,JSONPath=".status.lastOperation.state",type=string,description="State of the last operation."
// +kubebuilder:printcolumn:name=Age,JSONPath=".metadata.creationTimestamp",type=date,description="Age of the object."

// DNSRecord is one record set in a provider's DNS.
type DNSRecord struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is written by the gardenlet. It may not change once the object is being deleted.
	Spec DNSRecordSpec `json:"spec"`
	// status is written by the extension.
	// +optional
	Status DNSRecordStatus `json:"status,omitempty"`
}

// GetDefaultSpec implements [Object].
func (o *DNSRecord) GetDefaultSpec() *DefaultSpec { return &o.Spec.DefaultSpec }

// GetDefaultStatus implements [Object].
func (o *DNSRecord) GetDefaultStatus() *DefaultStatus { return &o.Status.DefaultStatus }

// +kubebuilder:object:root=true

// DNSRecordList is a list of DNSRecord objects.
type DNSRecordList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []DNSRecord `json:"items"`
}

// DNSRecordSpec is the desired state of a DNSRecord.
type DNSRecordSpec struct {
	DefaultSpec `json:",inline"`
	// secretRef names the Secret with the provider's credentials. Required.
	SecretRef corev1.SecretReference `json:"secretRef"`
	// region for providers whose API needs one.
	// +optional
	Region *string `json:"region,omitempty"`
	// zone is the id of the hosted zone. Empty lets the extension find the zone with the longest matching suffix.
	// +optional
	Zone *string `json:"zone,omitempty"`
	// name is the fully qualified domain name. Required, immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Name string `json:"name"`
	// recordType is A, AAAA, CNAME or TXT. Required, immutable.
	// +kubebuilder:validation:Enum=A;AAAA;CNAME;TXT
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	RecordType DNSRecordType `json:"recordType"`
	// values are addresses for A and AAAA, one name for CNAME, texts for TXT. At least one.
	// +kubebuilder:validation:MinItems=1
	Values []string `json:"values"`
	// ttl is how long resolvers may remember the record, in seconds. Default 120.
	// +optional
	TTL *int64 `json:"ttl,omitempty"`
}

// DNSRecordStatus is the observed state of a DNSRecord.
type DNSRecordStatus struct {
	DefaultStatus `json:",inline"`
	// zone is the id of the hosted zone the record lies in; set by the extension and reused later.
	// +optional
	Zone *string `json:"zone,omitempty"`
}

// DNSRecordType is the type of a record set.
type DNSRecordType string

const (
	// DNSRecordTypeA holds IPv4 addresses.
	DNSRecordTypeA DNSRecordType = "A"
	// DNSRecordTypeAAAA holds IPv6 addresses.
	DNSRecordTypeAAAA DNSRecordType = "AAAA"
	// DNSRecordTypeCNAME holds another name.
	DNSRecordTypeCNAME DNSRecordType = "CNAME"
	// DNSRecordTypeTXT holds texts.
	DNSRecordTypeTXT DNSRecordType = "TXT"
)

// DNSRecordConditionCreated is True once the record exists at the provider, and False when the very first attempt to
// create it failed: then there is nothing to delete, so invalid credentials cannot block it.
const DNSRecordConditionCreated = "Created"
