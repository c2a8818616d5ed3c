package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerDeployment holds what an extension is deployed from. It is stored as core.gardener.cloud/v1.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// type is helm, or a custom type that another controller deploys.
	Type string `json:"type"`
	// providerConfig for helm is {chart, values, ociRepository}.
	ProviderConfig runtime.RawExtension `json:"providerConfig"`
	// injectGardenKubeconfig gives all pods of the chart a kubeconfig for the garden, whose path is in their environment
	// variable GARDEN_KUBECONFIG. Empty: false.
	// +optional
	InjectGardenKubeconfig *bool `json:"injectGardenKubeconfig,omitempty"`
}

// ControllerDeploymentList is a list of ControllerDeployments.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ControllerDeployments.
	Items []ControllerDeployment `json:"items"`
}

// ControllerDeploymentTypeHelm is the type of deployments from a Helm chart.
const ControllerDeploymentTypeHelm = "helm"
