package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/flow"
)

// ResourceManager applies objects to the Shoot, and issues tokens for the Shoot to components in the seed. It starts at
// the same time as the API server and becomes ready when that answers.
var ResourceManager = &flow.Step[*Scope]{
	Name:   "resource-manager",
	After:  []*flow.Step[*Scope]{KubeAPIServer},
	Ensure: use3(ensureResourceManager),
	Limit:  5 * time.Minute,
}

func ensureResourceManager(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	access, err := secrets.access(resourcemanager.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	v := resourcemanager.Values{
		Namespace: s.Namespace, Image: s.Images.Hortus, Replicas: s.Replicas(), Access: access,
		Size: s.size(), Workers: !s.Workerless(),
		MaxNodeAgentDelay: s.Shoot.MaxNodeAgentDelay(),
	}
	if v.Workers {
		server, err := secrets.Get(nameWebhooks)
		if err != nil {
			return flow.Outcome{}, err
		}
		v.WebhookSecret = server.Name
		v.SystemComponents = component.SystemComponents(s.Shoot.Spec.Provider.Workers).Tolerations
		v.APIServerHost = s.InternalHost()
	}
	objects := resourcemanager.Render(v)
	outcome, err := applyWorkload(ctx, s, seed, objects)
	if err != nil || outcome.IsDone() {
		return outcome, err
	}
	if server, err := seed.deploymentReady(ctx, kubeapiserver.Name); err != nil || !server.IsDone() {
		return server, err // It can't be ready earlier.
	}
	return outcome, nil
}

// applyWorkload applies objects of which the last one is a Deployment and reports whether it is ready.
func applyWorkload(ctx context.Context, s *Values, seed *SeedNamespace, objects []client.Object) (flow.Outcome, error) {
	if err := seed.apply(ctx, objects...); err != nil {
		return flow.Outcome{}, err
	}
	if s.SkipReadiness() || s.Asleep() {
		return flow.Done(), nil
	}
	return seed.deploymentReady(ctx, objects[len(objects)-1].GetName())
}

// ManagedResources represents all objects that ManagedResources keep in the Shoot. Steps that create ManagedResources
// come after it; in a deletion it waits until all of them are gone, which requires the API server.
var ManagedResources = &flow.Step[*Scope]{
	Name:   "managed-resources",
	After:  []*flow.Step[*Scope]{ResourceManager},
	Remove: use2(removeManagedResources),
	Limit:  10 * time.Minute,
}

// removeManagedResources deletes what extensions have left, and releases everything if the API server is gone: then
// the Shoot is, too.
func removeManagedResources(ctx context.Context, s *Values, seed *SeedNamespace) (flow.Outcome, error) {
	list, err := seed.shootResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	var names []string
	for i := range list {
		mr := &list[i]
		names = append(names, mr.Name)
		if _, err := seed.remove(ctx, mr); err != nil {
			return flow.Outcome{}, err
		}
		if s.Facts.APIServer || len(mr.Finalizers) == 0 {
			continue
		}
		before := mr.DeepCopy()
		mr.Finalizers = nil
		if err := client.IgnoreNotFound(seed.Patch(ctx, mr, client.MergeFrom(before))); err != nil {
			return flow.Outcome{}, fmt.Errorf("release ManagedResource %q: %w", mr.Name, err)
		}
	}
	if len(names) > 0 {
		return flow.Waiting(waitManagedResource, "ManagedResources are being deleted: "+strings.Join(names, ", ")), nil
	}
	return flow.Done(), nil
}
