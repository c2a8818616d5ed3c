package extension

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// HasTypeAndClass passes objects of the type and of one of the classes.
func HasTypeAndClass(typ string, classes ...extensionsv1alpha1.Class) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		o, ok := obj.(Object)
		if !ok || o.GetDefaultSpec().Type != typ {
			return false
		}
		for _, class := range classes {
			if o.GetDefaultSpec().GetClass() == class {
				return true
			}
		}
		return false
	})
}

// OperationRequested passes the events after which an extension must act: an operation was requested, the object was
// deleted, or the process starts and finds an unfinished operation.
func OperationRequested() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			obj, ok := e.Object.(Object)
			return ok && requested(obj)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(Object)
			after, ok2 := e.ObjectNew.(Object)
			if !ok1 || !ok2 {
				return false
			}
			// Our own status writes are events, too: during a deletion, and while a requested operation waits.
			own := !equality.Semantic.DeepEqual(before.GetDefaultStatus(), after.GetDefaultStatus())
			asked := operationAnnotation(after) && (!own || !operationAnnotation(before))
			deleting := !after.GetDeletionTimestamp().IsZero() && !own
			return asked || deleting
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// GenerationChanged passes changes of the spec as well as the events of [OperationRequested], for extensions that do
// not wait for a request.
func GenerationChanged() predicate.Predicate {
	return predicate.Or(OperationRequested(), predicate.GenerationChangedPredicate{})
}
