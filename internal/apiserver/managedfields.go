package apiserver

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/builder3"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// mapConverter converts objects to maps once for the computation of managed fields. The library's converter reads Go
// values by reflection, anew for each access, which took up to half of the time of a patch (ADR 20). Objects are not
// validated against the schema, because both come from the same Go types.
type mapConverter struct{ managedfields.TypeConverter }

// newTypeConverter reads from the OpenAPI document which fields of our kinds can have different managers.
func newTypeConverter(config *openapicommon.OpenAPIV3Config) (managedfields.TypeConverter, error) {
	definitions := config.GetDefinitions(func(string) spec.Ref { return spec.Ref{} })
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, slices.Sorted(maps.Keys(definitions))...)
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(schemas, false)
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c mapConverter) ObjectToTyped(
	object runtime.Object, options ...typed.ValidationOptions,
) (*typed.TypedValue, error) {
	if _, ok := object.(runtime.Unstructured); ok {
		return c.TypeConverter.ObjectToTyped(object, options...)
	}
	sample := &unstructured.Unstructured{} // Carries the name of the type in the schema.
	sample.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	known, err := c.TypeConverter.ObjectToTyped(sample)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withoutManagedFields(object))
	if err != nil {
		return nil, err
	}
	return typed.AsTypedUnvalidated(value.NewValueInterface(content), known.Schema(), known.TypeRef()), nil
}

// withoutManagedFields returns a copy without managed fields, which the computation would drop anyway.
func withoutManagedFields(object runtime.Object) runtime.Object {
	result := reflect.New(reflect.TypeOf(object).Elem())
	result.Elem().Set(reflect.ValueOf(object).Elem())
	if o, ok := result.Interface().(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return result.Interface().(runtime.Object)
}
