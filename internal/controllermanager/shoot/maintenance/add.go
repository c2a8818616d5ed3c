package maintenance

import (
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	decision "hortus.dev/hortus/internal/maintenance"
)

// Name of the controller.
const Name = "shoot-maintenance"

// AddToManager adds the controller to the manager.
func (r *Reconciler) AddToManager(mgr manager.Manager, concurrentSyncs int) error {
	err := builder.ControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Shoot{}, builder.WithPredicates(Relevant())).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSyncs}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("add controller %s: %w", Name, err)
	}
	return nil
}

// Relevant passes events that may change the time of maintenance: creation, a request for maintenance, and another time
// window. All other changes wait for the window.
func Relevant() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
			after, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
			return ok1 && ok2 && (!decision.WantsMaintenance(before) && decision.WantsMaintenance(after) ||
				!reflect.DeepEqual(windowOf(before), windowOf(after)))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func windowOf(shoot *corev1beta1.Shoot) *corev1beta1.MaintenanceTimeWindow {
	if shoot.Spec.Maintenance == nil {
		return nil
	}
	return shoot.Spec.Maintenance.TimeWindow
}
