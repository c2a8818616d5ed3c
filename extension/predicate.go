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
			if before.GetUID() != after.GetUID() { // Its deletion and the creation of the next object were missed.
				return requested(after)
			}
			// Our own status writes are events, too: during a deletion, and while a requested operation waits. After a broken
			// watch, one event may have both a report and a newer request.
			own := !equality.Semantic.DeepEqual(before.GetDefaultStatus(), after.GetDefaultStatus())
			annotated := operationAnnotation(after) && (!own || !sameRequest(before, after))
			deleting := !after.GetDeletionTimestamp().IsZero() && (!own || before.GetDeletionTimestamp().IsZero())
			// A Follower has begun an operation. If that is interrupted and the Follower, which sees the object of before, finds
			// nothing to do any more, this event is the last.
			begun := !requested(before) && requested(after)
			return annotated || deleting || begun
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// sameRequest reports whether two versions of an object have the same operation and timestamp.
func sameRequest(a, b Object) bool {
	for _, key := range []string{extensionsv1alpha1.AnnotationOperation, extensionsv1alpha1.AnnotationTimestamp} {
		if a.GetAnnotations()[key] != b.GetAnnotations()[key] {
			return false
		}
	}
	return true
}

// GenerationChanged passes changes of the spec as well as the events of [OperationRequested], for extensions that do
// not wait for a request.
func GenerationChanged() predicate.Predicate {
	return predicate.Or(OperationRequested(), predicate.GenerationChangedPredicate{})
}
