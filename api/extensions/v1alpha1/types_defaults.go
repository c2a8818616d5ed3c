package v1alpha1

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Object is what all kinds of the contract but Cluster have in common.
// Implementations return pointers into the object, so that changes made through them are kept.
// +kubebuilder:object:generate=false
type Object interface {
	metav1.Object
	runtime.Object

	// GetDefaultSpec returns the part of the spec that all kinds share.
	GetDefaultSpec() *DefaultSpec
	// GetDefaultStatus returns the part of the status that all kinds share.
	GetDefaultStatus() *DefaultStatus
}

// Class is the kind of cluster that an object belongs to; an extension ignores objects of classes it does not serve.
type Class string

const (
	// ClassShoot is for objects of a Shoot. An object without class has this one.
	ClassShoot Class = "shoot"
	// ClassSeed is for objects a seed needs for itself.
	ClassSeed Class = "seed"
	// ClassGarden is for objects the garden needs for itself.
	ClassGarden Class = "garden"
)

// DefaultSpec is the part of the spec that all kinds share.
type DefaultSpec struct {
	// type names the extension that acts on the object, for example "local". Required, immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	Type string `json:"type"`
	// class is shoot, seed or garden. Empty means shoot. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable"
	// +optional
	Class *Class `json:"class,omitempty"`
	// providerConfig is passed on from the Shoot; only the extension knows its meaning.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
}

// GetClass returns the class, ClassShoot when none is set.
func (s *DefaultSpec) GetClass() Class {
	if s.Class == nil {
		return ClassShoot
	}
	return *s.Class
}

// DefaultStatus is the part of the status that all kinds share.
// The one primary extension writes it; other writers may add conditions only.
type DefaultStatus struct {
	// providerStatus is the extension's output for later objects, for example the ids of what an Infrastructure made.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// conditions report health. Types known from the Shoot are merged into its conditions.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []corev1beta1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// lastError is the error of the last operation; empty after a success.
	// +optional
	LastError *corev1beta1.LastError `json:"lastError,omitempty"`
	// lastOperation is the operation that ran last, and its progress. Empty until the extension acts for the first time.
	// +optional
	LastOperation *corev1beta1.LastOperation `json:"lastOperation,omitempty"`
	// observedGeneration is the metadata.generation the last operation worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state is what the extension needs after a migration and cannot rebuild. It is copied into the ShootState.
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	State *runtime.RawExtension `json:"state,omitempty"`
	// resources are objects in the same namespace the state refers to. They are copied into the ShootState.
	// +optional
	Resources []NamedResourceReference `json:"resources,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// NamedResourceReference gives an object a name under which a state refers to it.
type NamedResourceReference struct {
	// name is used in the state. Required.
	Name string `json:"name"`
	// resourceRef is the object, in the namespace of the extension object. Required.
	ResourceRef autoscalingv1.CrossVersionObjectReference `json:"resourceRef"`
}
