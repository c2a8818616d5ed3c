package steps

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// KubeControllerManager runs the controllers of Kubernetes for the Shoot.
var KubeControllerManager = &flow.Step[*Scope]{
	Name:   "kube-controller-manager",
	After:  []*flow.Step[*Scope]{KubeAPIServerReady, Connection},
	Ensure: use4(ensureKubeControllerManager),
	Limit:  5 * time.Minute,
}

func ensureKubeControllerManager(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, cluster *ShootCluster,
) (flow.Outcome, error) {
	access, err := secrets.access(kubecontrollermanager.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	clientCA, err := secrets.Get(nameCAClient)
	if err != nil {
		return flow.Outcome{}, err
	}
	key, err := secrets.Get(nameServiceAccountKey)
	if err != nil {
		return flow.Outcome{}, err
	}
	v := kubecontrollermanager.Values{
		Namespace:         s.Namespace,
		Image:             s.Images.KubeControllerManager(s.Shoot.Spec.Kubernetes.Version),
		Replicas:          s.Replicas(),
		Access:            access,
		Size:              s.size(),
		ClientCASecret:    clientCA.Name,
		ServiceAccountKey: key.Name,
		ServiceCIDR:       s.ServiceCIDR(),
		Workers:           !s.Workerless(),
		Config:            s.Shoot.Spec.Kubernetes.KubeControllerManager,
	}
	if v.Workers {
		kubeletCA, err := secrets.Get(nameCAKubelet)
		if err != nil {
			return flow.Outcome{}, err
		}
		v.KubeletCASecret, v.PodCIDR = kubeletCA.Name, s.PodCIDR()
	}
	if s.Replicas() > 0 && !s.SkipReadiness() {
		if err := releaseLeadership(ctx, seed, cluster); err != nil {
			return flow.Outcome{}, err
		}
	}
	config, deployment := kubecontrollermanager.Render(v)
	return applyWorkload(ctx, s, seed, []client.Object{config, deployment})
}

// releaseLeadership deletes the Lease of the leader if no kube-controller-manager runs. One that is stopped does not
// release its Lease, and the next, after a hibernation or a move, would wait until it expires. Until then no node could
// join, since nothing signs its certificate.
func releaseLeadership(ctx context.Context, seed *SeedNamespace, cluster *ShootCluster) error {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: kubecontrollermanager.Name, Namespace: seed.namespace},
	}
	if found, err := kube.Exists(ctx, seed, d); err != nil || found && ptr.Deref(d.Spec.Replicas, 1) > 0 {
		return err
	}
	shoot, err := cluster.client()
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: kubecontrollermanager.Name, Namespace: metav1.NamespaceSystem},
	}
	if found, err := kube.Exists(ctx, shoot, lease); err != nil || !found {
		return err
	}
	// The Deployment and the pods in the cache may be old. A pod that leads after this list changes the Lease, and the
	// deletion conflicts with it.
	pods, err := seed.podsOf(ctx, kubecontrollermanager.Name, &client.ListOptions{Raw: &metav1.ListOptions{}})
	if err != nil || len(pods) > 0 {
		return err
	}
	err = shoot.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		// A webhook of the user may not answer without nodes. The Lease expires by itself, so nothing depends on it.
		log.FromContext(ctx).Info("The Lease of the former kube-controller-manager is not deleted",
			"expiresAfter", component.ElectionLeaseDuration, "reason", err.Error())
	}
	return nil
}
