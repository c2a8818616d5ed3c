package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// applyShootResource hands objects that live in the Shoot to the resource-manager. SystemComponentsReady waits for all
// of them.
func (seed *SeedNamespace) applyShootResource(ctx context.Context, name string, objects []client.Object) error {
	secret, mr, err := managedresource.ForShoot(seed.Scheme(), seed.namespace, name, objects...)
	if err != nil {
		return err
	}
	return seed.apply(ctx, secret, mr)
}

// removeShootResource ends a ManagedResource for the Shoot, with its objects there.
func (seed *SeedNamespace) removeShootResource(ctx context.Context, name string) (flow.Outcome, error) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seed.namespace}}
	if gone, err := seed.remove(ctx, mr); err != nil || !gone {
		return waitingOr(waitManagedResource, "ManagedResource is being deleted: "+name, err)
	}
	_, err := seed.remove(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: managedresource.SecretName(name), Namespace: seed.namespace},
	})
	return flow.Done(), err
}

// resourceOutcome reports how far a ManagedResource is with the newest content of its Secret.
func (seed *SeedNamespace) resourceOutcome(ctx context.Context, name string) (flow.Outcome, error) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: seed.namespace}}
	found, err := kube.Exists(ctx, seed, mr)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Waiting(waitManagedResource, fmt.Sprintf("ManagedResource %s does not exist yet", name)), nil
	}
	var secrets []*corev1.Secret
	for _, ref := range mr.Spec.SecretRefs {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: seed.namespace}}
		if found, err := kube.Exists(ctx, seed, secret); err != nil || !found {
			return waitingOr(waitSecret, fmt.Sprintf("Secret %s of ManagedResource %s does not exist yet", ref.Name, name), err)
		}
		secrets = append(secrets, secret)
	}
	if ready, reason := managedresource.Ready(mr, managedresource.Checksum(secrets...)); !ready {
		return flow.Waiting(waitManagedResource, reason).About(name), nil
	}
	return flow.Done(), nil
}

// managedResources lists all ManagedResources of the control plane.
func (seed *SeedNamespace) managedResources(ctx context.Context) ([]resourcesv1alpha1.ManagedResource, error) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
		return nil, fmt.Errorf("list ManagedResources: %w", err)
	}
	return list.Items, nil
}

// shootResources lists the ManagedResources for the Shoot, extensions' ones included.
func (seed *SeedNamespace) shootResources(ctx context.Context) ([]resourcesv1alpha1.ManagedResource, error) {
	list, err := seed.managedResources(ctx)
	if err != nil {
		return nil, err
	}
	var out []resourcesv1alpha1.ManagedResource
	for _, mr := range list {
		if mr.Spec.Class == nil || *mr.Spec.Class == "" {
			out = append(out, mr)
		}
	}
	return out, nil
}

// ShootResources comes after all steps that apply something of the gardenlet's own to the Shoot; in a deletion it
// removes these objects. Machines are created after it and deleted before it, since draining them requires these
// objects.
var ShootResources = &flow.Step[*Scope]{
	Name:   "shoot-resources",
	After:  []*flow.Step[*Scope]{ShootNamespaces, ShootSystem, CoreDNS, KubeProxy, APIServerProxy, VPNShoot, NodeAgent},
	Remove: use3(removeShootResources),
	Limit:  10 * time.Minute,
}

func removeShootResources(
	ctx context.Context, s *Values, seed *SeedNamespace, cluster *ShootCluster,
) (flow.Outcome, error) {
	list, err := seed.shootResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	var names []string
	for i := range list {
		if list[i].Labels[resourcesv1alpha1.LabelOrigin] != resourcesv1alpha1.OriginGardener {
			continue
		}
		names = append(names, list[i].Name)
		if _, err := seed.remove(ctx, &list[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	if len(names) > 0 && s.Facts.APIServer {
		if err := deleteLostPods(ctx, cluster); err != nil {
			return flow.Outcome{}, err
		}
		return flow.Waiting(waitManagedResource, "ManagedResources are being deleted: "+strings.Join(names, ", ")), nil
	}
	return flow.Done(), nil
}

// deleteLostPods ends the pods of system components. Their machines are gone, so no kubelet will ever confirm their
// end, and the garbage collector of pods lets a minute pass before it takes them.
func deleteLostPods(ctx context.Context, cluster *ShootCluster) error {
	shoot, err := cluster.client()
	if err != nil {
		return err
	}
	err = shoot.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceSystem), client.GracePeriodSeconds(0))
	if err != nil {
		return fmt.Errorf("delete pods of lost machines: %w", err)
	}
	return nil
}

// SystemComponentsReady waits until everything that the gardenlet has applied to the Shoot is healthy.
var SystemComponentsReady = &flow.Step[*Scope]{
	Name:   "system-components-ready",
	After:  []*flow.Step[*Scope]{ShootResources, Network, Worker},
	SkipIf: when(asleep, hibernating, withoutNodes, skipReadiness, leaving),
	Ensure: use1(ensureSystemComponentsReady),
	Limit:  10 * time.Minute,
}

func ensureSystemComponentsReady(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	list, err := seed.shootResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	var reasons []string
	for i := range list {
		if list[i].Labels[resourcesv1alpha1.LabelOrigin] != resourcesv1alpha1.OriginGardener ||
			!list[i].DeletionTimestamp.IsZero() {
			continue
		}
		outcome, err := seed.resourceOutcome(ctx, list[i].Name)
		if err != nil {
			return flow.Outcome{}, err
		}
		if !outcome.IsDone() {
			reasons = append(reasons, outcome.Reason())
		}
	}
	if len(reasons) > 0 {
		return flow.Waiting(waitManagedResource, strings.Join(reasons, "; ")), nil
	}
	return flow.Done(), nil
}

// hibernating: there are to be no nodes, so nothing can run on them.
func hibernating(s *Values) string { return reasonIf(s.Shoot.HibernationEnabled(), "hibernated") }
