package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy is the generic store's strategy for requests to the resource itself.
type strategy[T Object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind *Kind[T]
}

func (s strategy[T]) NamespaceScoped() bool          { return s.kind.Namespaced }
func (s strategy[T]) AllowCreateOnUpdate() bool      { return false }
func (s strategy[T]) AllowUnconditionalUpdate() bool { return s.kind.Unconditional }
func (s strategy[T]) Canonicalize(runtime.Object)    {}
func (s strategy[T]) WarningsOnCreate(ctx context.Context, o runtime.Object) []string {
	var none T
	return s.warnings(ctx, o.(T), none)
}
func (s strategy[T]) WarningsOnUpdate(ctx context.Context, o, old runtime.Object) []string {
	return s.warnings(ctx, o.(T), old.(T))
}

func (s strategy[T]) warnings(ctx context.Context, object, old T) []string {
	if s.kind.Warnings == nil {
		return nil
	}
	return s.kind.Warnings(ctx, object, old)
}

func (s strategy[T]) PrepareForCreate(ctx context.Context, o runtime.Object) {
	object := o.(T)
	if s.kind.CopyStatus != nil {
		s.kind.CopyStatus(object, s.kind.New())
	}
	if s.kind.Spec != nil {
		object.SetGeneration(1)
	}
	if s.kind.Default != nil {
		s.kind.Default(object)
	}
	if s.kind.PrepareForCreate != nil {
		s.kind.PrepareForCreate(ctx, object)
	}
}

func (s strategy[T]) PrepareForUpdate(ctx context.Context, o, oldObject runtime.Object) {
	object, old := o.(T), oldObject.(T)
	KeepType(object, old)
	if s.kind.CopyStatus != nil {
		s.kind.CopyStatus(object, old)
	}
	if s.kind.Default != nil {
		s.kind.Default(object)
	}
	bump := false
	if s.kind.PrepareForUpdate != nil {
		bump = s.kind.PrepareForUpdate(ctx, object, old)
	}
	s.setGeneration(object, old, bump)
}

// KeepType sets the type meta of an updated object to the stored object's. They differ depending on how they were
// decoded, and the library would treat that as a change: a repeated server-side apply would be stored only for its
// time.
func KeepType(object, old runtime.Object) {
	object.GetObjectKind().SetGroupVersionKind(old.GetObjectKind().GroupVersionKind())
}

// setGeneration increments the generation if requested, if the spec has changed, or if the deletion has begun.
func (s strategy[T]) setGeneration(object, old T, bump bool) {
	if s.kind.Spec == nil {
		return
	}
	object.SetGeneration(old.GetGeneration())
	deleting := s.kind.DeletionBumps && old.GetDeletionTimestamp() == nil && object.GetDeletionTimestamp() != nil
	if bump || deleting || (s.kind.SpecBumps == nil || s.kind.SpecBumps(object, old)) && s.kind.specChanged(object, old) {
		object.SetGeneration(old.GetGeneration() + 1)
	}
}

func (s strategy[T]) Validate(_ context.Context, o runtime.Object) field.ErrorList {
	if s.kind.Validate == nil {
		return nil
	}
	return s.kind.Validate(o.(T))
}

func (s strategy[T]) ValidateUpdate(ctx context.Context, o, old runtime.Object) field.ErrorList {
	if s.kind.ValidateUpdate == nil {
		return s.Validate(ctx, o)
	}
	return s.kind.ValidateUpdate(o.(T), old.(T))
}

// GetResetFields returns the fields that a request to the resource cannot change. Server-side apply does not record an
// owner for them.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if s.kind.CopyStatus == nil {
		return nil
	}
	return s.reset("status")
}

func (s strategy[T]) reset(field string) map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(s.kind.groupVersion().String()): fieldpath.NewSet(fieldpath.MakePathOrDie(field)),
	}
}

// statusStrategy is the generic store's strategy for requests to the subresource status.
type statusStrategy[T Object] struct{ strategy[T] }

func (s statusStrategy[T]) PrepareForUpdate(ctx context.Context, o, oldObject runtime.Object) {
	object, old := o.(T), oldObject.(T)
	KeepType(object, old)
	s.kind.CopySpec(object, old)
	bump := false
	if s.kind.PrepareForStatusUpdate != nil {
		bump = s.kind.PrepareForStatusUpdate(ctx, object, old)
	}
	s.setGeneration(object, old, bump)
}

func (s statusStrategy[T]) ValidateUpdate(_ context.Context, o, old runtime.Object) field.ErrorList {
	if s.kind.ValidateStatusUpdate == nil {
		return nil
	}
	return s.kind.ValidateStatusUpdate(o.(T), old.(T))
}

func (s statusStrategy[T]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func (s statusStrategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.reset("spec")
}
