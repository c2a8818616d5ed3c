package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Object is the interface that every kind implements.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind describes how a kind is served. Nil functions do nothing.
type Kind[T Object] struct {
	// Resource is the plural, such as shoots. Version is the stored version. Singular is the singular of Resource.
	Resource schema.GroupResource
	Version  string
	Singular string
	// New and NewList create empty objects of the internal version.
	New     func() T
	NewList func() runtime.Object

	Namespaced bool
	ShortNames []string
	Categories []string
	// Unconditional allows updates (PUT) without resourceVersion.
	Unconditional bool

	// Spec returns pointers to the parts of the object that make up its spec, for comparison. If nil, the kind has no
	// generation.
	Spec func(T) any
	// CopyStatus and CopySpec copy one part of an object, sharing memory. If nil, the kind has no status.
	CopyStatus, CopySpec func(to, from T)
	// DeletionBumps increments the generation when the deletion timestamp is set.
	DeletionBumps bool

	// Default sets fields that decoding cannot default, such as those that depend on the namespace of the request.
	Default func(T)
	// PrepareForCreate changes a new object after admission and before validation.
	PrepareForCreate func(ctx context.Context, object T)
	// PrepareForUpdate changes an updated object, whose status is already the old one, and reports whether its generation
	// is incremented for another reason than a changed spec.
	PrepareForUpdate func(ctx context.Context, object, old T) (bump bool)
	// PrepareForStatusUpdate does the same for updates of the status.
	PrepareForStatusUpdate func(ctx context.Context, object, old T) (bump bool)
	// SpecBumps reports whether a change of the spec increments the generation. If nil, every change does.
	SpecBumps func(object, old T) bool

	Validate             func(object T) field.ErrorList
	ValidateUpdate       func(object, old T) field.ErrorList
	ValidateStatusUpdate func(object, old T) field.ErrorList
	// Warnings returns warnings for the client. old is nil on creation.
	Warnings func(ctx context.Context, object, old T) []string

	// Fields returns the selectable fields in addition to name and namespace; those in Indexed have an index.
	Fields  func(T) fields.Set
	Indexed []string
	// FieldSpellings are further spellings of keys in Fields, which selectors may use.
	FieldSpellings map[string]string

	// Columns and Row define the table. The first column is the name, the last the age; both are added.
	Columns []metav1.TableColumnDefinition
	Row     func(T) []any

	// Subresources returns additional subresources by name.
	Subresources func(store *genericregistry.Store) map[string]rest.Storage
}

func (k *Kind[T]) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: k.Resource.Group, Version: k.Version}
}

// specChanged says whether an update changes the spec.
func (k *Kind[T]) specChanged(object, old T) bool {
	return k.Spec != nil && !equality.Semantic.DeepEqual(k.Spec(object), k.Spec(old))
}
