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

// shootResource returns the Ensure function of a step whose objects live in the Shoot. It is done when they are handed
// to the resource-manager; SystemComponentsReady waits for all of them together.
func shootResource(
	name string, render func(context.Context, *Scope) ([]client.Object, error),
) func(context.Context, *Scope) (flow.Outcome, error) {
	return func(ctx context.Context, s *Scope) (flow.Outcome, error) {
		objects, err := render(ctx, s)
		if err != nil {
			return flow.Outcome{}, err
		}
		return flow.Done(), s.applyShootResource(ctx, name, objects)
	}
}

func (s *Scope) applyShootResource(ctx context.Context, name string, objects []client.Object) error {
	secret, mr, err := managedresource.ForShoot(s.Seed.Scheme(), s.Namespace, name, objects...)
	if err != nil {
		return err
	}
	return s.apply(ctx, secret, mr)
}

// removeShootResource ends a ManagedResource for the Shoot, with its objects there.
func (s *Scope) removeShootResource(ctx context.Context, name string) (flow.Outcome, error) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	if gone, err := s.remove(ctx, mr); err != nil || !gone {
		return waitingOr("ManagedResource is being deleted: "+name, err)
	}
	_, err := s.remove(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: managedresource.SecretName(name), Namespace: s.Namespace},
	})
	return flow.Done(), err
}

// resourceOutcome reports how far a ManagedResource is with the newest content of its Secret.
func (s *Scope) resourceOutcome(ctx context.Context, name string) (flow.Outcome, error) {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	found, err := kube.Exists(ctx, s.Seed, mr)
	if err != nil {
		return flow.Outcome{}, err
	}
	if !found {
		return flow.Waiting(fmt.Sprintf("ManagedResource %s does not exist yet", name)), nil
	}
	var secrets []*corev1.Secret
	for _, ref := range mr.Spec.SecretRefs {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Namespace: s.Namespace}}
		if found, err := kube.Exists(ctx, s.Seed, secret); err != nil || !found {
			return waitingOr(fmt.Sprintf("Secret %s of ManagedResource %s does not exist yet", ref.Name, name), err)
		}
		secrets = append(secrets, secret)
	}
	if ready, reason := managedresource.Ready(mr, managedresource.Checksum(secrets...)); !ready {
		return flow.Waiting(reason), nil
	}
	return flow.Done(), nil
}

// managedResources lists all ManagedResources of the control plane.
func (s *Scope) managedResources(ctx context.Context) ([]resourcesv1alpha1.ManagedResource, error) {
	list := &resourcesv1alpha1.ManagedResourceList{}
	if err := s.Seed.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("list ManagedResources: %w", err)
	}
	return list.Items, nil
}

// shootResources lists the ManagedResources for the Shoot, extensions' ones included.
func (s *Scope) shootResources(ctx context.Context) ([]resourcesv1alpha1.ManagedResource, error) {
	list, err := s.managedResources(ctx)
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

// ShootResources stands for what the gardenlet itself puts into the Shoot. Machines come after it, and in a deletion go
// before it, since draining them needs it.
var ShootResources = &flow.Step[*Scope]{
	Name:   "shoot-resources",
	After:  []*flow.Step[*Scope]{ShootNamespaces, ShootSystem, CoreDNS, KubeProxy, APIServerProxy, VPNShoot, NodeAgent},
	Remove: removeShootResources,
	Limit:  10 * time.Minute,
}

func removeShootResources(ctx context.Context, s *Scope) (flow.Outcome, error) {
	list, err := s.shootResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	var names []string
	for i := range list {
		if list[i].Labels[resourcesv1alpha1.LabelOrigin] != resourcesv1alpha1.OriginGardener {
			continue
		}
		names = append(names, list[i].Name)
		if _, err := s.remove(ctx, &list[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	if len(names) > 0 && s.Facts.APIServer {
		if err := s.deleteLostPods(ctx); err != nil {
			return flow.Outcome{}, err
		}
		return flow.Waiting("ManagedResources are being deleted: " + strings.Join(names, ", ")), nil
	}
	return flow.Done(), nil
}

// deleteLostPods ends the pods of system components. Their machines are gone, so no kubelet will ever confirm their
// end, and the garbage collector of pods lets a minute pass before it takes them.
func (s *Scope) deleteLostPods(ctx context.Context) error {
	shoot, err := s.shootClient()
	if err != nil {
		return err
	}
	err = shoot.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(metav1.NamespaceSystem), client.GracePeriodSeconds(0))
	if err != nil {
		return fmt.Errorf("delete pods of lost machines: %w", err)
	}
	return nil
}

// SystemComponentsReady waits until everything that the gardenlet has put into the Shoot is healthy.
var SystemComponentsReady = &flow.Step[*Scope]{
	Name:   "system-components-ready",
	After:  []*flow.Step[*Scope]{ShootResources, Network, Worker},
	SkipIf: either(asleep, hibernating, withoutNodes, skipReadiness, leaving),
	Ensure: ensureSystemComponentsReady,
	Limit:  10 * time.Minute,
}

func ensureSystemComponentsReady(ctx context.Context, s *Scope) (flow.Outcome, error) {
	list, err := s.shootResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	var reasons []string
	for i := range list {
		if list[i].Labels[resourcesv1alpha1.LabelOrigin] != resourcesv1alpha1.OriginGardener ||
			!list[i].DeletionTimestamp.IsZero() {
			continue
		}
		outcome, err := s.resourceOutcome(ctx, list[i].Name)
		if err != nil {
			return flow.Outcome{}, err
		}
		if !outcome.IsDone() {
			reasons = append(reasons, outcome.Reason())
		}
	}
	if len(reasons) > 0 {
		return flow.Waiting(strings.Join(reasons, "; ")), nil
	}
	return flow.Done(), nil
}

// hibernating: there are to be no nodes, so nothing can run on them.
func hibernating(s *Scope) string {
	if s.Hibernated() {
		return "hibernated"
	}
	return ""
}
