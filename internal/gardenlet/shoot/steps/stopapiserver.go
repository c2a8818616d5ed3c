package steps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopKubeAPIServer ends the API server, together with other Deployments, and reports whether no server is left that
// could write to etcd. It does not let the server drain: clients have to reconnect in any case, and acknowledged writes
// are in etcd.
//
// Controllers delete pods with the whole grace period, which a kubelet does not shorten later, and replace a pod that
// others delete. So the pods are detached from their controllers first, and serve until they are deleted.
// [ensureKubeAPIServer] attaches them again.
func stopKubeAPIServer(ctx context.Context, seed *SeedNamespace, others ...string) (bool, error) {
	d, err := apiServerDeployment(ctx, seed)
	if err != nil {
		return false, err
	}
	if d.UID != "" && ptr.Deref(d.Spec.Replicas, 1) > 0 {
		if released, err := releasePods(ctx, seed, d); err != nil || !released {
			return false, err
		}
	}
	ended, err := seed.deletePods(ctx, d.Name, func(*corev1.Pod) bool { return true })
	if err != nil {
		return false, err
	}
	for _, name := range append([]string{d.Name}, others...) {
		if err := seed.scaleDeployment(ctx, name, 0); err != nil {
			return false, err
		}
	}
	if !ended {
		return false, nil
	}
	return kubeAPIServerEnded(ctx, seed)
}

// kubeAPIServerEnded reports whether no server is left that could write to etcd, once its Deployment has been scaled
// to zero.
func kubeAPIServerEnded(ctx context.Context, seed *SeedNamespace) (bool, error) {
	d, err := apiServerDeployment(ctx, seed)
	if err != nil || d.Status.ObservedGeneration < d.Generation || d.Status.Replicas > 0 {
		return false, err
	}
	// A pod that the cache does not contain yet could write.
	pods, err := seed.podsOf(ctx, d.Name, &client.ListOptions{Raw: &metav1.ListOptions{}})
	return len(pods) == 0, err
}

// stoppedWithAPIServer are the names of the Deployments that stop with the API server.
func stoppedWithAPIServer() []string {
	var names []string
	for _, d := range Deployments {
		if d.StopsWithAPIServer {
			names = append(names, d.Name)
		}
	}
	return names
}

// releasePods pauses a Deployment, so that it makes no ReplicaSet, and deletes its ReplicaSets, but not their pods. It
// reports whether the pods have no controller.
func releasePods(ctx context.Context, seed *SeedNamespace, d *appsv1.Deployment) (bool, error) {
	if err := seed.pauseDeployment(ctx, d, true); err != nil {
		return false, err
	}
	if d.Status.ObservedGeneration < d.Generation {
		return false, nil
	}
	return seed.deleteReplicaSets(ctx, d.Name)
}
