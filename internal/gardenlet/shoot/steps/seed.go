package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// apply applies objects in order; each holds the server's answer afterwards. Deployments and StatefulSets are written
// once per operation, so that webhooks of extensions act on them.
func (seed *SeedNamespace) apply(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		var err error
		switch o.(type) {
		case *appsv1.Deployment, *appsv1.StatefulSet:
			err = seed.applied.Rewrite(ctx, seed, o, FieldOwner, seed.operation)
		default:
			err = seed.applied.Apply(ctx, seed, o, FieldOwner)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes objects and reports whether all are gone.
func (seed *SeedNamespace) remove(ctx context.Context, objects ...client.Object) (bool, error) {
	all := true
	for _, o := range objects {
		gone, err := seed.applied.Delete(ctx, seed, o)
		if err != nil {
			return false, err
		}
		all = all && gone
	}
	return all, nil
}

// deploymentReady reads a Deployment and reports whether its newest version is available.
func (seed *SeedNamespace) deploymentReady(ctx context.Context, name string) (flow.Outcome, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seed.namespace}}
	found, err := kube.Exists(ctx, seed, d)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Waiting(waitDeployment, fmt.Sprintf("Deployment %s has been deleted by somebody else", name)), nil
	}
	if !kube.DeploymentReady(d) {
		pods := &corev1.PodList{}
		if err := seed.List(ctx, pods, client.InNamespace(seed.namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return flow.Outcome{}, fmt.Errorf("list pods of Deployment %q: %w", name, err)
		}
		return seed.waitForPods(waitDeployment, kube.DeploymentProgress(d), pods.Items).About(name), nil
	}
	return flow.Done(), nil
}

// fetchLimit is how long nodes may take to fetch an image. Some registries, the local cloud's for one, make an image
// when it is requested.
const fetchLimit = 30 * time.Minute

// waitForPods adds to the text what the pods wait for.
func (seed *SeedNamespace) waitForPods(kind flow.Kind, text string, pods []corev1.Pod) flow.Outcome {
	why, fetching := kube.WaitingContainers(pods, seed.clock.Now())
	if why != "" {
		text += ": " + why
	}
	if fetching {
		return flow.WaitingUpTo(fetchLimit, kind, text)
	}
	return flow.Waiting(kind, text)
}

// removeDeployment deletes a Deployment and waits for its pods, which the garbage collector removes after it.
func (seed *SeedNamespace) removeDeployment(ctx context.Context, d *appsv1.Deployment) (flow.Outcome, error) {
	gone, err := seed.remove(ctx, d)
	if err != nil {
		return flow.Outcome{}, err
	}
	ended, err := seed.endPods(ctx, d.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !gone || !ended {
		return flow.Waiting(waitDeployment, fmt.Sprintf("Deployment %s is being deleted", d.Name)).About(d.Name), nil
	}
	return flow.Done(), nil
}

// scaleDeployment sets the replicas of a Deployment if it exists.
func (seed *SeedNamespace) scaleDeployment(ctx context.Context, name string, replicas int32) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seed.namespace}}
	found, err := kube.Exists(ctx, seed, d)
	if err != nil || !found || ptr.Deref(d.Spec.Replicas, 1) == replicas {
		return err
	}
	before := d.DeepCopy()
	d.Spec.Replicas = ptr.To(replicas)
	if err := seed.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("scale Deployment %q: %w", name, err)
	}
	log.FromContext(ctx).Info("Scaled Deployment", "Deployment", klog.KObj(d), "replicas", replicas)
	return nil
}

// stopStatefulSet scales a StatefulSet that was read to zero.
func (seed *SeedNamespace) stopStatefulSet(ctx context.Context, set *appsv1.StatefulSet) error {
	if ptr.Deref(set.Spec.Replicas, 1) == 0 {
		return nil
	}
	before := set.DeepCopy()
	set.Spec.Replicas = ptr.To(int32(0))
	if err := seed.Patch(ctx, set, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("scale StatefulSet %q: %w", set.Name, err)
	}
	log.FromContext(ctx).Info("Scaled StatefulSet", "StatefulSet", klog.KObj(set), "replicas", 0)
	return nil
}

// pauseDeployment pauses or resumes a Deployment. It does not create a missing one.
func (seed *SeedNamespace) pauseDeployment(ctx context.Context, d *appsv1.Deployment, paused bool) error {
	if d.UID == "" || d.Spec.Paused == paused {
		return nil
	}
	before := d.DeepCopy()
	d.Spec.Paused = paused
	if err := seed.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("set spec.paused of Deployment %q to %t: %w", d.Name, paused, err)
	}
	log.FromContext(ctx).Info("Paused or resumed Deployment", "Deployment", klog.KObj(d), "paused", paused)
	return nil
}

// deleteReplicaSets deletes the ReplicaSets of a Deployment that is paused, deleted, or scaled to zero right
// afterwards, but not their pods. It reports whether the pods have no controller.
func (seed *SeedNamespace) deleteReplicaSets(ctx context.Context, name string) (bool, error) {
	sets := &appsv1.ReplicaSetList{}
	if err := seed.List(ctx, sets, client.InNamespace(seed.namespace), client.MatchingLabels(component.Selector(name)),
		&client.ListOptions{Raw: &metav1.ListOptions{}}); err != nil {
		return false, fmt.Errorf("list ReplicaSets of %s: %w", name, err)
	}
	// ReplicaSets without pods come first, because a paused Deployment scales the last remaining one.
	slices.SortFunc(sets.Items, func(a, b appsv1.ReplicaSet) int {
		return cmp.Compare(ptr.Deref(a.Spec.Replicas, 1), ptr.Deref(b.Spec.Replicas, 1))
	})
	for i := range sets.Items {
		if _, err := seed.applied.Delete(ctx, seed, &sets.Items[i],
			client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			return false, err
		}
	}
	return len(sets.Items) == 0, nil
}

// podsOf lists the pods of a component.
func (seed *SeedNamespace) podsOf(ctx context.Context, name string, opts ...client.ListOption) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	opts = append(opts, client.InNamespace(seed.namespace), client.MatchingLabels(component.Selector(name)))
	if err := seed.List(ctx, pods, opts...); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", name, err)
	}
	return pods.Items, nil
}

// endPods reports whether the pods of a component have ended that nobody uses any more. Those that are shutting down
// need not wait for their clients.
func (seed *SeedNamespace) endPods(ctx context.Context, name string) (bool, error) {
	return seed.deletePods(ctx, name, func(p *corev1.Pod) bool { return !p.DeletionTimestamp.IsZero() })
}

// deletePods deletes those pods of a component that match, and reports whether it has none.
func (seed *SeedNamespace) deletePods(ctx context.Context, name string, match func(*corev1.Pod) bool) (bool, error) {
	pods, err := seed.podsOf(ctx, name)
	if err != nil {
		return false, err
	}
	for i := range pods {
		p := &pods[i]
		if !match(p) {
			continue
		}
		if err := seed.endPod(ctx, p); err != nil {
			return false, err
		}
	}
	return len(pods) == 0, nil
}

// endPod deletes a Pod that was read, or shortens the time that it has to end to a second.
func (seed *SeedNamespace) endPod(ctx context.Context, p *corev1.Pod) error {
	if !p.DeletionTimestamp.IsZero() && ptr.Deref(p.DeletionGracePeriodSeconds, 0) <= 1 {
		return nil
	}
	if err := client.IgnoreNotFound(seed.Delete(ctx, p, client.GracePeriodSeconds(1))); err != nil {
		return fmt.Errorf("end Pod %q: %w", p.Name, err)
	}
	log.FromContext(ctx).Info("Deleted Pod with a short grace period, since nobody uses it any more", "Pod", klog.KObj(p))
	return nil
}

// releaseResource takes the finalizers of a ManagedResource that was read away, and deletes it.
func (seed *SeedNamespace) releaseResource(
	ctx context.Context, mr *resourcesv1alpha1.ManagedResource, keepObjects bool,
) error {
	before := mr.DeepCopy()
	mr.Spec.KeepObjects, mr.Finalizers = ptr.To(keepObjects), nil
	if err := client.IgnoreNotFound(seed.Patch(ctx, mr, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("release ManagedResource %q: %w", mr.Name, err)
	}
	if len(before.Finalizers) > 0 {
		log.FromContext(ctx).Info("Removed the finalizers of ManagedResource, whose objects nobody deletes",
			"ManagedResource", klog.KObj(mr), "finalizers", before.Finalizers)
	}
	_, err := seed.remove(ctx, mr)
	return err
}

// release deletes all objects of the kinds in the namespace after taking their finalizers away, and counts them.
func (seed *SeedNamespace) release(
	ctx context.Context, group schema.GroupVersion, kinds ...string,
) (count int, err error) {
	for _, kind := range kinds {
		n, err := seed.releaseKind(ctx, group.WithKind(kind))
		if err != nil {
			return 0, err
		}
		count += n
	}
	return count, nil
}

// metadata lists the objects of a kind in the namespace. A kind that the seed does not have has none.
func (seed *SeedNamespace) metadata(
	ctx context.Context, kind schema.GroupVersionKind,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	return list.Items, nil
}

func (seed *SeedNamespace) releaseKind(ctx context.Context, kind schema.GroupVersionKind) (int, error) {
	objects, err := seed.metadata(ctx, kind)
	if err != nil {
		return 0, err
	}
	for i := range objects {
		o := &objects[i]
		o.SetGroupVersionKind(kind)
		if len(o.Finalizers) > 0 || o.Annotations[extensionsv1alpha1.AnnotationConfirmDeletion] == "" {
			before := o.DeepCopy()
			o.Finalizers = nil
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, extensionsv1alpha1.AnnotationConfirmDeletion, "true")
			if err := client.IgnoreNotFound(seed.Patch(ctx, o, client.MergeFrom(before))); err != nil {
				return 0, fmt.Errorf("release %s %q: %w", kind.Kind, o.Name, err)
			}
			if len(before.Finalizers) > 0 {
				log.FromContext(ctx).Info("Removed the finalizers of object, which nobody handles any more",
					"object", kind.Kind+" "+klog.KObj(o).String(), "finalizers", before.Finalizers)
			}
		}
		if _, err := seed.applied.Delete(ctx, seed, o); err != nil {
			return 0, err
		}
	}
	return len(objects), nil
}
