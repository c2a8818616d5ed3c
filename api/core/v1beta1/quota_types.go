package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Quota bounds what the Shoots of a project, or of a set of credentials, may use.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Quota struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec limits the total resources of Shoots, and their lifetime.
	// +optional
	Spec QuotaSpec `json:"spec,omitempty"`
}

// QuotaList is a list of Quotas.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type QuotaList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Quotas.
	Items []Quota `json:"items"`
}

// QuotaSpec is the bound of a Quota.
type QuotaSpec struct {
	// clusterLifetimeDays is after how many days a Shoot is deleted, at least 1. Empty: never.
	// +optional
	ClusterLifetimeDays *int32 `json:"clusterLifetimeDays,omitempty"`
	// metrics are the bounds: cpu, gpu, memory, storage.standard, storage.premium, loadbalancer.
	Metrics corev1.ResourceList `json:"metrics"`
	// scope is a Project, a Secret or a WorkloadIdentity, by kind and apiVersion. Immutable.
	Scope corev1.ObjectReference `json:"scope"`
}

// Metrics of a Quota besides cpu, gpu and memory.
const (
	QuotaMetricGPU             corev1.ResourceName = "gpu"
	QuotaMetricStorageStandard corev1.ResourceName = "storage.standard"
	QuotaMetricStoragePremium  corev1.ResourceName = "storage.premium"
	QuotaMetricLoadbalancer    corev1.ResourceName = "loadbalancer"
)
