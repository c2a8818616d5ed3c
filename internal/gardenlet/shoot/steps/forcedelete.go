package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// The forced deletion of a Shoot removes everything from the seed without touching the user's cluster or the provider:
// the user has to delete everything that remains there.
var (
	// ForceMachines removes the machine objects without deleting the machines. The machine controller is deleted first, so
	// that it does not act on them.
	ForceMachines = &flow.Step[*Scope]{
		Name:    "force-machines",
		Ensure:  use1(forceMachines),
		Recheck: recheck,
	}
	// ForceExtensions deletes all extension objects; their extensions see that the deletion is forced.
	ForceExtensions = &flow.Step[*Scope]{
		Name:   "force-extensions",
		After:  []*flow.Step[*Scope]{ForceMachines},
		Ensure: use1(forceExtensions),
	}
	// ForceManagedResources deletes the ManagedResources without deleting their objects in the Shoot.
	ForceManagedResources = &flow.Step[*Scope]{
		Name:    "force-managed-resources",
		After:   []*flow.Step[*Scope]{ForceExtensions},
		Ensure:  use1(forceManagedResources),
		Recheck: recheck,
	}
)

// ForceDelete is the flow of a forced deletion.
func ForceDelete() *flow.Graph[*Scope] {
	return flow.New(ForceMachines, ForceExtensions, ForceManagedResources).SkipAll(when(notLive)).
		Then(flow.Reverse(nil, Etcd)).Then(flow.Reverse(nil, Namespace)).Then(flow.Reverse(nil, BackupEntry))
}

var machineGroupVersion = schema.GroupVersion{Group: "machine.sapcloud.io", Version: "v1alpha1"}

// machineKinds in the order in which they may go: what makes others first.
var machineKinds = []string{"MachineDeployment", "MachineSet", "Machine", "MachineClass"}

func forceMachines(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: machinecontrollermanager.Name, Namespace: seed.namespace,
	}}
	if outcome, err := seed.removeDeployment(ctx, controller); err != nil || !outcome.IsDone() {
		return outcome, err
	}
	left, err := seed.release(ctx, machineGroupVersion, machineKinds...)
	if err != nil {
		return flow.Outcome{}, err
	}
	if left > 0 {
		return flow.Waiting(waitMachine, fmt.Sprintf("%d machine objects are being removed", left)), nil
	}
	return flow.Done(), nil
}

func forceExtensions(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	objects, err := extensionobject.List(ctx, seed, seed.namespace,
		append(slices.Clone(extensionobject.Kinds), extensionobject.Bastions)...)
	if err != nil {
		return flow.Outcome{}, err
	}
	var left []string
	for _, o := range objects {
		name := extensionobject.KindOf(o) + " " + o.GetName()
		left = append(left, name)
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		before := o.DeepCopyObject().(extensionsv1alpha1.Object)
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[extensionsv1alpha1.AnnotationConfirmDeletion] = "true"
		annotations[extensionsv1alpha1.AnnotationConfirmForceDeletion] = "true"
		annotations[extensionsv1alpha1.AnnotationTimestamp] = seed.clock.Now().UTC().Format(time.RFC3339Nano)
		o.SetAnnotations(annotations)
		if err := seed.Patch(ctx, o, client.MergeFrom(before)); err != nil {
			return flow.Outcome{}, fmt.Errorf("confirm deletion of %s: %w", name, err)
		}
		if _, err := seed.remove(ctx, o); err != nil {
			return flow.Outcome{}, err
		}
	}
	if len(left) > 0 {
		return flow.Waiting(waitExtension, "Extension objects are being removed: "+leftList(left)), nil
	}
	return flow.Done(), nil
}

func forceManagedResources(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	list, err := seed.managedResources(ctx)
	if err != nil {
		return flow.Outcome{}, err
	}
	for i := range list {
		if err := seed.releaseResource(ctx, &list[i], false); err != nil {
			return flow.Outcome{}, err
		}
	}
	if len(list) > 0 {
		return flow.Waiting(waitManagedResource, fmt.Sprintf("%d ManagedResources are being removed", len(list))), nil
	}
	return flow.Done(), nil
}
