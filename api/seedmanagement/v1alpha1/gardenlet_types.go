package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Gardenlet is what the gardenlet of the Seed with the same name should be: it updates itself. The first one is
// installed from the garden if kubeconfigSecretRef says where.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Gardenlet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the chart, the deployment and the configuration of the gardenlet.
	// +optional
	Spec GardenletSpec `json:"spec,omitempty"`
	// status is the observed state of the gardenlet.
	// +optional
	Status GardenletStatus `json:"status,omitempty"`
}

// GardenletList is a list of Gardenlets.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type GardenletList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Gardenlets.
	Items []Gardenlet `json:"items"`
}

// GardenletSpec is the chart, the deployment and the configuration of a gardenlet.
type GardenletSpec struct {
	// deployment holds the chart and the settings of the gardenlet's Deployment.
	Deployment GardenletSelfDeployment `json:"deployment"`
	// config is a GardenletConfiguration with a seedConfig.
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// kubeconfigSecretRef names a Secret in the namespace of the Gardenlet. Its key kubeconfig has the kubeconfig of the
	// cluster into which the gardenlet is installed while its Seed is not registered, and with the operation
	// force-redeploy. It requires config.gardenClientConnection.gardenClusterAddress, the address of the garden as the
	// seed reaches it.
	// +optional
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
}

// GardenletSelfDeployment holds the chart and the settings of a gardenlet's Deployment.
type GardenletSelfDeployment struct {
	GardenletDeployment `json:",inline"`
	// helm is the chart of the gardenlet.
	Helm GardenletHelm `json:"helm"`
	// imageVectorOverwrite replaces images of components.
	// +optional
	ImageVectorOverwrite *string `json:"imageVectorOverwrite,omitempty"`
	// componentImageVectorOverwrite replaces images that components deploy.
	// +optional
	ComponentImageVectorOverwrite *string `json:"componentImageVectorOverwrite,omitempty"`
}

// GardenletHelm is the chart of a gardenlet.
type GardenletHelm struct {
	// ociRepository is where the chart is.
	OCIRepository gardencorev1.OCIRepository `json:"ociRepository"`
}

// GardenletReconciled is the condition of a Gardenlet that is True when the gardenlet is as the spec says.
const GardenletReconciled gardencorev1beta1.ConditionType = "GardenletReconciled"

// GardenletStatus is the observed state of a gardenlet.
type GardenletStatus struct {
	// conditions of the Gardenlet.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []gardencorev1beta1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// observedGeneration is the generation that the gardenlet has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
