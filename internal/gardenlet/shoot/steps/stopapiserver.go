package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
)

// stopKubeAPIServer ends the API server, together with other Deployments, and reports whether no server is left that
// could write to etcd. It does not let the server drain: clients have to connect anew in any case, and what has been
// acknowledged is in etcd.
//
// Controllers delete pods with the whole grace period, which a kubelet does not shorten later, and replace a pod that
// somebody else deletes. So the pods are taken out of their hands first, and serve until they are ended.
// [ensureKubeAPIServer] gives them back.
func (s *Scope) stopKubeAPIServer(ctx context.Context, others ...string) (bool, error) {
	d, err := s.apiServerDeployment(ctx)
	if err != nil {
		return false, err
	}
	if d.UID != "" && ptr.Deref(d.Spec.Replicas, 1) > 0 {
		if released, err := s.releasePods(ctx, d); err != nil || !released {
			return false, err
		}
	}
	ended, err := s.deletePods(ctx, d.Name, func(*corev1.Pod) bool { return true })
	if err != nil {
		return false, err
	}
	for _, name := range append([]string{d.Name}, others...) {
		if err := s.scaleDeployment(ctx, name, 0); err != nil {
			return false, err
		}
	}
	if d, err = s.apiServerDeployment(ctx); err != nil || !ended || d.Status.ObservedGeneration < d.Generation ||
		d.Status.Replicas > 0 {
		return false, err
	}
	// A cache may not know a pod yet that could write.
	pods, err := s.podsOf(ctx, d.Name, &client.ListOptions{Raw: &metav1.ListOptions{}})
	return len(pods) == 0, err
}

// releasePods pauses a Deployment, so that it makes no ReplicaSet, and deletes its ReplicaSets, but not their pods. It
// reports whether the pods belong to nobody.
func (s *Scope) releasePods(ctx context.Context, d *appsv1.Deployment) (bool, error) {
	if err := s.pauseDeployment(ctx, d, true); err != nil {
		return false, err
	}
	if d.Status.ObservedGeneration < d.Generation {
		return false, nil
	}
	return s.deleteReplicaSets(ctx, d.Name)
}

// deleteReplicaSets deletes the ReplicaSets of a Deployment that makes no more of them, but not their pods. It reports
// whether the pods belong to nobody.
func (s *Scope) deleteReplicaSets(ctx context.Context, name string) (bool, error) {
	sets := &appsv1.ReplicaSetList{}
	if err := s.Seed.List(ctx, sets, client.InNamespace(s.Namespace), client.MatchingLabels(component.Selector(name)),
		&client.ListOptions{Raw: &metav1.ListOptions{}}); err != nil {
		return false, fmt.Errorf("list ReplicaSets of %s: %w", name, err)
	}
	// Those without pods go first, because a paused Deployment scales the one that is left last.
	slices.SortFunc(sets.Items, func(a, b appsv1.ReplicaSet) int {
		return cmp.Compare(ptr.Deref(a.Spec.Replicas, 1), ptr.Deref(b.Spec.Replicas, 1))
	})
	for i := range sets.Items {
		if err := s.Seed.Delete(ctx, &sets.Items[i],
			client.PropagationPolicy(metav1.DeletePropagationOrphan)); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete ReplicaSet %q, but not its pods: %w", sets.Items[i].Name, err)
		}
	}
	return len(sets.Items) == 0, nil
}

// pauseDeployment lets a Deployment make no ReplicaSets, or lets it go on. One that does not exist stays so.
func (s *Scope) pauseDeployment(ctx context.Context, d *appsv1.Deployment, paused bool) error {
	if d.UID == "" || d.Spec.Paused == paused {
		return nil
	}
	before := d.DeepCopy()
	d.Spec.Paused = paused
	if err := s.Seed.Patch(ctx, d, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("set spec.paused of Deployment %q to %t: %w", d.Name, paused, err)
	}
	return nil
}
