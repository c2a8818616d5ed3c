package manifest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/api/validation"
)

// CRDs is the scheme of our kinds that are defined by CRDs and not part of the garden's API.
var CRDs = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // A bug in the types.
		}
	}
	return scheme
}()

// GroupVersionKind returns the kind of the object.
func (o *Object) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
}

// UnknownKind returns a problem if the object has no kind, or a kind that its group does not have. It does not check
// groups other than ours.
func (o *Object) UnknownKind() (Problem, bool) {
	gvk := o.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return Problem{Type: TypeUnknownKind, Message: "apiVersion and kind must be given"}, true
	}
	if _, found := validation.Find(gvk); found || CRDs.Recognizes(gvk) || !ours(gvk.Group) {
		return Problem{}, false
	}
	return Problem{
		Type: TypeUnknownKind, Field: "kind", Value: o.Kind, Message: fmt.Sprintf("%s has no such kind", o.APIVersion),
	}, true
}

func ours(group string) bool {
	return group == extensionsv1alpha1.SchemeGroupVersion.Group || group == resourcesv1alpha1.GroupName ||
		slices.ContainsFunc(validation.Kinds, func(k validation.Kind) bool { return k.Group == group })
}
