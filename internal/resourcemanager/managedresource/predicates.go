package managedresource

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

func builderPredicates(p ...predicate.Predicate) builder.Predicates {
	return builder.WithPredicates(p...)
}

// finalizersChanged lets updates pass that hand a ManagedResource from one class to another.
func finalizersChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
	}}
}
