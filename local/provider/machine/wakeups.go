package machine

import (
	"context"
	"sync"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineinformers "github.com/gardener/machine-controller-manager/pkg/client/informers/externalversions/machine/v1alpha1"
	machinelisters "github.com/gardener/machine-controller-manager/pkg/client/listers/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"hortus.dev/hortus/local/cloud"
)

// wakeups is the machine informer given to the machine controller, which checks a machine again only after its spec has
// changed or a fixed time (5 s to 10 min) has passed. It notifies the controller's own handlers of a change when
//   - a machine in deletion has finished a step, so that the next one need not wait 5 s;
//   - a new machine was changed by another client or its class has become usable, which would also wait 5 s;
//   - something has changed in the cloud that may let a failed creation succeed, such as a quota, which would wait
//     10 min.
type wakeups struct {
	machineinformers.MachineInformer

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	watched  map[*cloud.Client]bool
}

// Informer returns the shared informer; handlers added to it are remembered.
func (w *wakeups) Informer() cache.SharedIndexInformer {
	return &recordingInformer{SharedIndexInformer: w.MachineInformer.Informer(), wakeups: w}
}

// Lister returns the lister of the shared informer.
func (w *wakeups) Lister() machinelisters.MachineLister { return w.MachineInformer.Lister() }

type recordingInformer struct {
	cache.SharedIndexInformer
	wakeups *wakeups
}

// AddEventHandler implements cache.SharedIndexInformer.
func (i *recordingInformer) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	i.wakeups.mu.Lock()
	i.wakeups.handlers = append(i.wakeups.handlers, h)
	i.wakeups.mu.Unlock()
	return i.SharedIndexInformer.AddEventHandler(h)
}

// watchSteps wakes machines that need not wait any longer.
func (w *wakeups) watchSteps(classes machineinformers.MachineClassInformer) error {
	_, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			o, ok1 := before.(*machinev1alpha1.MachineClass)
			n, ok2 := after.(*machinev1alpha1.MachineClass)
			if ok1 && ok2 && len(o.Finalizers) == 0 && len(n.Finalizers) > 0 {
				w.wakeWhere(func(m *machinev1alpha1.Machine) bool { return m.Spec.Class.Name == n.Name && isNew(m) })
			}
		},
	})
	if err != nil {
		return err
	}
	_, err = w.MachineInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			o, ok1 := before.(*machinev1alpha1.Machine)
			n, ok2 := after.(*machinev1alpha1.Machine)
			if ok1 && ok2 && o.Generation == n.Generation &&
				(stepFinished(o, n) || (isNew(n) && o.ResourceVersion != n.ResourceVersion)) {
				w.wake(n)
			}
		},
	})
	return err
}

// stepFinished reports whether a machine in deletion has finished a step without an error.
func stepFinished(before, after *machinev1alpha1.Machine) bool {
	a, b := before.Status.LastOperation, after.Status.LastOperation
	return !after.DeletionTimestamp.IsZero() &&
		b.Type == machinev1alpha1.MachineOperationDelete && b.State == machinev1alpha1.MachineStateProcessing &&
		a.Description != b.Description
}

// isNew reports whether a machine was not created yet.
func isNew(m *machinev1alpha1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase == ""
}

// wake notifies the handlers that a machine's spec has changed, though it has not. Only the generation of the old
// object differs, which the handlers compare.
func (w *wakeups) wake(machine *machinev1alpha1.Machine) {
	before := machine.DeepCopy()
	before.Generation--
	w.mu.Lock()
	handlers := w.handlers
	w.mu.Unlock()
	for _, h := range handlers {
		h.OnUpdate(before, machine)
	}
}

// watchCloud follows the events of a cloud account, once per client, until ctx ends.
func (w *wakeups) watchCloud(ctx context.Context, api *cloud.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[api] {
		return
	}
	if w.watched == nil {
		w.watched = map[*cloud.Client]bool{}
	}
	w.watched[api] = true
	go func() {
		_ = api.Watch(ctx, func(events *cloud.EventList) { // Refused credentials end it; new ones mean a new client.
			if mayHeal(events) {
				w.wakeFailed()
			}
		})
		w.mu.Lock()
		delete(w.watched, api)
		w.mu.Unlock()
	}()
}

// mayHeal reports whether creations that were refused may now succeed.
func mayHeal(events *cloud.EventList) bool {
	for _, e := range events.Events {
		if e.Kind == "quota" || e.Kind == "fault" || (e.Kind == "instance" && e.Type == "deleted") {
			return true
		}
	}
	return false
}

// wakeFailed wakes the machines whose creation has failed.
func (w *wakeups) wakeFailed() {
	w.wakeWhere(func(m *machinev1alpha1.Machine) bool {
		return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase == machinev1alpha1.MachineCrashLoopBackOff
	})
}

func (w *wakeups) wakeWhere(match func(*machinev1alpha1.Machine) bool) {
	machines, err := w.Lister().List(labels.Everything())
	if err != nil {
		return // Reads memory only; there is nothing to wake before the cache is filled.
	}
	for _, m := range machines {
		if match(m) {
			w.wake(m)
		}
	}
}
