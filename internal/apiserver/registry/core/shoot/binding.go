package shoot

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// NewBinding returns the subresource that sets and changes the Seed of a Shoot.
func NewBinding(store *genericregistry.Store) rest.Storage {
	return registry.NewSubresource(store, bindingStrategy{store.UpdateStrategy})
}

type bindingStrategy struct{ rest.RESTUpdateStrategy }

func (bindingStrategy) PrepareForUpdate(_ context.Context, o, oldObject runtime.Object) {
	s, old := o.(*corev1beta1.Shoot), oldObject.(*corev1beta1.Shoot)
	registry.KeepType(s, old)
	s.Status = old.Status
	// Left by a scheduler that found no Seed.
	if op := s.Status.LastOperation; op != nil && s.Spec.SeedName != nil &&
		op.Type == corev1beta1.LastOperationTypeCreate && op.State == corev1beta1.LastOperationStatePending {
		s.Status.LastOperation = nil
	}
	// A declaration no longer applies if the move is cancelled, or if the control plane has left the Seed it names.
	dead, same := s.Annotations[corev1beta1.AnnotationSourceIsDead]
	if same && dead == old.Annotations[corev1beta1.AnnotationSourceIsDead] &&
		(dead == ptr.Deref(s.Spec.SeedName, "") || dead != ptr.Deref(s.Status.SeedName, "")) {
		delete(s.Annotations, corev1beta1.AnnotationSourceIsDead)
	}
	syncSpellings(s, old)
	canonicalize(s)
	s.Generation = old.Generation
	if !equality.Semantic.DeepEqual(s.Spec, old.Spec) {
		s.Generation++
	}
}

func (bindingStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(corev1beta1.SchemeGroupVersion.String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}
}
