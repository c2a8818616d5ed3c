package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExposureClass specifies how the API servers of Shoots are reached.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ExposureClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// handler names the gateway of the Seeds that serves the class, at most 34 characters. Immutable.
	Handler string `json:"handler"`
	// scheduling limits the Seeds. Immutable.
	// +optional
	Scheduling *ExposureClassScheduling `json:"scheduling,omitempty"`
}

// ExposureClassList is a list of ExposureClasses.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ExposureClassList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ExposureClasses.
	Items []ExposureClass `json:"items"`
}

// ExposureClassScheduling limits the Seeds of Shoots that use an ExposureClass.
type ExposureClassScheduling struct {
	// seedSelector is merged into that of the Shoot.
	// +optional
	SeedSelector *SeedSelector `json:"seedSelector,omitempty"`
	// tolerations are added to those of the Shoot.
	// +optional
	// +patchMergeKey=key
	// +patchStrategy=merge
	Tolerations []Toleration `json:"tolerations,omitempty" patchStrategy:"merge" patchMergeKey:"key"`
}
