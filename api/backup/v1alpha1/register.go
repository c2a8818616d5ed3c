package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the name of the API group.
const GroupName = "backup.hortus.dev"

// SchemeGroupVersion is the group and version of this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var (
	// SchemeBuilder collects what AddToScheme does.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this package. It is for clients; the API server adds more.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Types returns an empty object of each kind and its list.
func Types() []runtime.Object {
	return []runtime.Object{
		&ShootBackups{},
	}
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, Types()...)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
