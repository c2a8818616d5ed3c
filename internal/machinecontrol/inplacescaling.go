package machinecontrol

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	deploymentcontroller "github.com/gardener/machine-controller-manager/pkg/controller"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// scaling scales MachineDeployments that are updated in place while several of their MachineSets have machines, as in
// the middle of an update. The library notices the new size, but scales such sets only in rolling updates, and neither
// scales nor updates until the former size is back: a Shoot would never hibernate.
type scaling struct {
	deployments machineclient.MachineDeploymentInterface
	sets        machineclient.MachineSetInterface
	queue       workqueue.TypedRateLimitingInterface[string] // Names of MachineDeployments.
}

func newScaling(
	deployments machineclient.MachineDeploymentInterface, sets machineclient.MachineSetInterface,
) *scaling {
	return &scaling{
		deployments: deployments, sets: sets,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
}

// watch enqueues MachineDeployments when they or their MachineSets change.
func (s *scaling) watch(deployments, sets cache.SharedIndexInformer) error {
	look := func(obj any) {
		switch o := obj.(type) {
		case *machinev1alpha1.MachineDeployment:
			if deploymentcontroller.IsInPlaceUpdate(o) {
				s.queue.Add(o.Name)
			}
		case *machinev1alpha1.MachineSet:
			if owner := metav1.GetControllerOf(o); owner != nil && o.Spec.Replicas > 0 {
				s.queue.Add(owner.Name)
			}
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, after any) { look(after) }}
	for _, informer := range []cache.SharedIndexInformer{deployments, sets} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}

// run works until ctx ends.
func (s *scaling) run(ctx context.Context) {
	go func() {
		<-ctx.Done()
		s.queue.ShutDown()
	}()
	for {
		name, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if err := s.reconcile(ctx, name); apierrors.IsConflict(err) { // The library was faster.
			s.queue.AddRateLimited(name)
		} else if err != nil {
			klog.ErrorS(err, "Failed to scale machine deployment that is being updated in place", "deployment", name)
			s.queue.AddRateLimited(name)
		} else {
			s.queue.Forget(name)
		}
		s.queue.Done(name)
	}
}

// reconcile scales a MachineDeployment if the library does not. It reads without a cache: the newest sizes count.
func (s *scaling) reconcile(ctx context.Context, name string) error {
	d, err := s.deployments.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	if !deploymentcontroller.IsInPlaceUpdate(d) {
		return nil
	}
	selector := labels.Set{labelDeployment: d.Name}.String()
	list, err := s.sets.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list machine sets with label %s: %w", selector, err)
	}
	for _, set := range scaledInPlace(d, list.Items) {
		if _, err := s.sets.Update(ctx, set, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("scale machine set %q: %w", set.Name, err)
		}
		klog.InfoS("Scaled machine set during update in place", "set", set.Name, "replicas", set.Spec.Replicas)
	}
	return nil
}

// scaledInPlace returns the MachineSets that have to change so that together they have as many machines as their
// MachineDeployment wants now, and those of a surge. It is empty if the library scales them. Machines are added to the
// new set, and taken from the old sets first, the oldest first.
func scaledInPlace(
	d *machinev1alpha1.MachineDeployment, sets []machinev1alpha1.MachineSet,
) []*machinev1alpha1.MachineSet {
	var all, changed []*machinev1alpha1.MachineSet
	total, active, noticed := int32(0), 0, false
	for i := range sets {
		set := sets[i].DeepCopy()
		if !metav1.IsControlledBy(set, d) || set.DeletionTimestamp != nil {
			continue
		}
		all, total = append(all, set), total+set.Spec.Replicas
		if set.Spec.Replicas > 0 {
			active++
			size, known := deploymentcontroller.GetDesiredReplicasAnnotation(set)
			noticed = noticed || known && size != d.Spec.Replicas
		}
	}
	if d.DeletionTimestamp != nil || d.Spec.Paused || active < 2 || !noticed {
		return nil
	}
	isNew := func(set *machinev1alpha1.MachineSet) int {
		if set.Spec.Template.Spec.Class.Name == d.Spec.Template.Spec.Class.Name {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b *machinev1alpha1.MachineSet) int {
		return cmp.Or(isNew(a)-isNew(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
	missing := d.Spec.Replicas + surgeInPlace(d) - total
	for _, set := range all {
		size := set.Spec.Replicas
		switch {
		case missing < 0:
			size = max(0, size+missing)
		case isNew(set) == 1:
			size = max(size, min(size+missing, d.Spec.Replicas))
		}
		missing += set.Spec.Replicas - size
		annotated := deploymentcontroller.SetReplicasAnnotations(set, d.Spec.Replicas,
			d.Spec.Replicas+deploymentcontroller.MaxSurge(*d))
		if size != set.Spec.Replicas || annotated {
			set.Spec.Replicas = size
			changed = append(changed, set)
		}
	}
	return changed
}

// surgeInPlace is the number of machines that a MachineDeployment may have beyond its size during an update in place.
func surgeInPlace(d *machinev1alpha1.MachineDeployment) int32 {
	u := d.Spec.Strategy.InPlaceUpdate
	if u == nil || u.MaxSurge == nil || u.OrchestrationType == machinev1alpha1.OrchestrationTypeManual {
		return 0
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, int(d.Spec.Replicas), true)
	if err != nil || d.Spec.Replicas == 0 {
		return 0
	}
	return int32(surge)
}
