package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerInstallation installs an extension in one Seed.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerInstallation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec names the extension and the Seed.
	// +optional
	Spec ControllerInstallationSpec `json:"spec,omitempty"`
	// status is the observed state of the installation.
	// +optional
	Status ControllerInstallationStatus `json:"status,omitempty"`
}

// ControllerInstallationList is a list of ControllerInstallations.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerInstallationList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ControllerInstallations.
	Items []ControllerInstallation `json:"items"`
}

// ControllerInstallationSpec names the extension and the Seed. Frozen once it is being deleted.
type ControllerInstallationSpec struct {
	// registrationRef names the ControllerRegistration. Its name is immutable.
	RegistrationRef corev1.ObjectReference `json:"registrationRef"`
	// seedRef names the Seed. Excludes shootRef. Its name is immutable.
	// +optional
	SeedRef *corev1.ObjectReference `json:"seedRef,omitempty"`
	// deploymentRef names the ControllerDeployment.
	// +optional
	DeploymentRef *corev1.ObjectReference `json:"deploymentRef,omitempty"`
	// shootRef names the self-hosted Shoot. Excludes seedRef. Immutable.
	// +optional
	ShootRef *corev1.ObjectReference `json:"shootRef,omitempty"`
	// resourceRefs are copies of objects that the ControllerDeployment refers to.
	// +optional
	ResourceRefs []corev1.ObjectReference `json:"resourceRefs,omitempty"`
}

// ControllerInstallationStatus is the observed state of an installation.
type ControllerInstallationStatus struct {
	// conditions of the installation.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// providerStatus belongs to the controller that installs.
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
}
