package v1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ControllerDeployment holds what an extension is deployed from.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ControllerDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// helm describes a Helm chart. Empty: a custom deployment, kept in annotations.
	// +optional
	Helm *HelmControllerDeployment `json:"helm,omitempty"`
	// injectGardenKubeconfig gives all pods of the chart a kubeconfig for the garden, whose path is in their environment
	// variable GARDEN_KUBECONFIG. Empty: false.
	// +optional
	InjectGardenKubeconfig *bool `json:"injectGardenKubeconfig,omitempty"`
	// resources are objects of the namespace garden whose values the chart's values refer to.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	Resources []NamedResourceReference `json:"resources,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
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

// Annotations that hold the v1beta1 fields of a deployment whose type is not helm.
const (
	AnnotationMigrationType           = "migration.controllerdeployment.gardener.cloud/type"
	AnnotationMigrationProviderConfig = "migration.controllerdeployment.gardener.cloud/providerConfig" // JSON text.
)

// HelmControllerDeployment is a Helm chart and its values.
type HelmControllerDeployment struct {
	// rawChart is the chart as a gzipped tar archive. Excludes ociRepository.
	// +optional
	RawChart []byte `json:"rawChart,omitempty"`
	// values of the chart, which the gardenlet completes with the key gardener. With resources, their strings may
	// contain expressions {{ .resources.<name>.data.<key> }} with letters and digits, and no other templates.
	// +optional
	Values *runtime.RawExtension `json:"values,omitempty"`
	// ociRepository holds the chart. Excludes rawChart.
	// +optional
	OCIRepository *OCIRepository `json:"ociRepository,omitempty"`
}

// OCIRepository is a place in a registry: either ref, or repository with tag or digest.
type OCIRepository struct {
	// ref is the full reference, with tag or digest. Excludes the other fields.
	// +optional
	Ref *string `json:"ref,omitempty"`
	// repository without tag and digest, such as registry.example.org/charts/dns.
	// +optional
	Repository *string `json:"repository,omitempty"`
	// tag in the repository. With repository, a tag or a digest is needed.
	// +optional
	Tag *string `json:"tag,omitempty"`
	// digest in the repository, beginning with sha256:. Wins over the tag.
	// +optional
	Digest *string `json:"digest,omitempty"`
	// pullSecretRef names a Secret of the namespace garden with credentials in the key .dockerconfigjson.
	// +optional
	PullSecretRef *corev1.LocalObjectReference `json:"pullSecretRef,omitempty"`
	// caBundleSecretRef names a Secret of the namespace garden with certificates in the key bundle.crt.
	// +optional
	CABundleSecretRef *corev1.LocalObjectReference `json:"caBundleSecretRef,omitempty"`
}

// NamedResourceReference names an object in the namespace garden.
type NamedResourceReference struct {
	// name is how the object is referred to: letters and digits. Unique in its list.
	Name string `json:"name"`
	// resourceRef is a v1 Secret or a v1 ConfigMap in the namespace garden.
	ResourceRef autoscalingv1.CrossVersionObjectReference `json:"resourceRef"`
}
