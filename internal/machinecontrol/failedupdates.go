package machinecontrol

import (
	"context"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// labelDeployment is the label of machines with the name of their MachineDeployment.
	labelDeployment = "name"
	// replacementPause is how long a machine waits for another of its MachineDeployment: about as long as it takes to
	// replace that one.
	replacementPause = 30 * time.Second
)

// replacements replaces machines whose update in place has failed, after the health timeout of their pool, unless that
// is disabled. The library is meant to do so, but never does: it allows one machine of a MachineDeployment to be
// replaced at a time, and counts the machine itself.
type replacements struct {
	machines machineclient.MachineInterface
	timeout  time.Duration // For pools without a health timeout of their own.
	clock    clock.PassiveClock
	queue    workqueue.TypedRateLimitingInterface[string]
}

func newReplacements(
	machines machineclient.MachineInterface, timeout time.Duration, clock clock.PassiveClock,
) *replacements {
	return &replacements{
		machines: machines, timeout: timeout, clock: clock,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// watch enqueues machines when their updates fail.
func (r *replacements) watch(informer cache.SharedIndexInformer) error {
	look := func(obj any) {
		if m, ok := obj.(*machinev1alpha1.Machine); ok && toBeReplaced(m) {
			r.queue.Add(m.Name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, after any) { look(after) },
	})
	return err
}

// run works until ctx ends.
func (r *replacements) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		r.queue.ShutDown()
	}()
	for {
		name, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		after, err := r.reconcile(ctx, name)
		switch {
		case err != nil:
			klog.ErrorS(err, "Failed to replace machine whose update in place has failed", "machine", name)
			r.queue.AddRateLimited(name)
		case after > 0:
			r.queue.Forget(name)
			r.queue.AddAfter(name, after)
		default:
			r.queue.Forget(name)
		}
		r.queue.Done(name)
	}
}

// reconcile replaces a machine if that is due, and otherwise returns when to check it again; zero means never.
func (r *replacements) reconcile(ctx context.Context, name string) (time.Duration, error) {
	m, err := r.machines.Get(ctx, name, metav1.GetOptions{}) // Not cached: the newest changes by others must be known.
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read it: %w", err)
	}
	if !toBeReplaced(m) {
		return 0, nil
	}
	selector := labels.Set{labelDeployment: m.Labels[labelDeployment]}.String()
	all, err := r.machines.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return 0, fmt.Errorf("list machines with label %s: %w", selector, err)
	}
	if after := replaceAfter(m, all.Items, r.timeout, r.clock.Now()); after > 0 {
		return after, nil
	}
	klog.InfoS("Replacing machine whose update in place has failed", "machine", name)
	now := metav1.NewTime(r.clock.Now())
	m.Status.LastOperation = machinev1alpha1.LastOperation{
		Description: fmt.Sprintf("%s The machine is replaced.", m.Status.LastOperation.Description),
		State:       machinev1alpha1.MachineStateFailed, Type: machinev1alpha1.MachineOperationHealthCheck,
		LastUpdateTime: now,
	}
	m.Status.CurrentStatus = machinev1alpha1.CurrentStatus{Phase: machinev1alpha1.MachineFailed, LastUpdateTime: now}
	if _, err := r.machines.UpdateStatus(ctx, m, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("mark it as failed: %w", err)
	}
	return 0, nil
}

// toBeReplaced reports whether the update of a machine has failed in a pool that replaces such machines.
func toBeReplaced(m *machinev1alpha1.Machine) bool {
	failed := m.Status.CurrentStatus.Phase == machinev1alpha1.MachineInPlaceUpdateFailed && m.DeletionTimestamp.IsZero()
	return failed && (m.Spec.MachineConfiguration == nil || !ptr.Deref(m.Spec.DisableHealthTimeout, false))
}

// replaceAfter is how long a machine that is to be replaced still has to wait: for its health timeout, and then for the
// machines of its MachineDeployment that are being replaced.
func replaceAfter(
	m *machinev1alpha1.Machine, all []machinev1alpha1.Machine, timeout time.Duration, now time.Time,
) time.Duration {
	if m.Spec.MachineConfiguration != nil && m.Spec.MachineHealthTimeout != nil {
		timeout = m.Spec.MachineHealthTimeout.Duration
	}
	if left := m.Status.CurrentStatus.LastUpdateTime.Add(timeout).Sub(now); left > 0 {
		return left
	}
	for i := range all {
		if other := &all[i]; other.Name != m.Name && beingReplaced(other) {
			return replacementPause
		}
	}
	return 0
}

// beingReplaced reports whether a machine is being deleted, or has not joined yet.
func beingReplaced(m *machinev1alpha1.Machine) bool {
	switch m.Status.CurrentStatus.Phase {
	case "", machinev1alpha1.MachinePending, machinev1alpha1.MachineCrashLoopBackOff,
		machinev1alpha1.MachineFailed, machinev1alpha1.MachineTerminating:
		return true
	}
	return !m.DeletionTimestamp.IsZero()
}
