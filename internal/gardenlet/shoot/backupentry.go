package shoot

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// ofBackupEntry returns the Shoot that an entry belongs to.
func ofBackupEntry(_ context.Context, o client.Object) []reconcile.Request {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Shoot" && owner.APIVersion == corev1beta1.SchemeGroupVersion.String() {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: owner.Name}}}
		}
	}
	return nil
}

// entryUpdates pass what a Shoot may wait for: another state of its entry, another error, or its end.
var entryUpdates = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, ok1 := e.ObjectOld.(*corev1beta1.BackupEntry)
		now, ok2 := e.ObjectNew.(*corev1beta1.BackupEntry)
		return !ok1 || !ok2 || entryState(old) != entryState(now)
	},
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// entryState is what makes a difference to a Shoot, in a form that can be compared.
func entryState(entry *corev1beta1.BackupEntry) (state struct {
	operation  corev1beta1.LastOperation
	failure    string
	generation int64
}) {
	if op := entry.Status.LastOperation; op != nil {
		state.operation = *op
		state.operation.LastUpdateTime = metav1.Time{}
	}
	if e := entry.Status.LastError; e != nil {
		state.failure = e.Description
	}
	state.generation = entry.Status.ObservedGeneration
	return state
}
