package steps

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

var (
	// ContainerRuntimes are the additional container runtimes of the Shoot's pools, one object per pool and type. Neither
	// machines nor their OperatingSystemConfigs wait for them: an extension may install its runtime with pods, which need
	// nodes.
	ContainerRuntimes = &flow.Step[*Scope]{
		Name:   "container-runtimes",
		After:  []*flow.Step[*Scope]{References, Connection, ManagedResources},
		SkipIf: when(workerless, asleep),
		Ensure: use2(ensureContainerRuntimes),
		Remove: use2(removeContainerRuntimes),
		Limit:  3 * time.Minute,
	}
	// StaleContainerRuntimes deletes ContainerRuntimes that no pool requests any more.
	StaleContainerRuntimes = &flow.Step[*Scope]{
		Name:   "stale-container-runtimes",
		After:  []*flow.Step[*Scope]{Connection, ManagedResources},
		SkipIf: when(workerless, asleep),
		Ensure: use2(ensureStaleContainerRuntimes),
		Limit:  3 * time.Minute,
	}
)

// containerRuntimes returns the objects that the Shoot's pools request, in the order of the pools.
func containerRuntimes(s *Values) []extensionsv1alpha1.Object {
	var out []extensionsv1alpha1.Object
	for i := range s.Shoot.Spec.Provider.Workers {
		w := &s.Shoot.Spec.Provider.Workers[i]
		if w.CRI == nil {
			continue
		}
		for _, r := range w.CRI.ContainerRuntimes {
			out = append(out, &extensionsv1alpha1.ContainerRuntime{
				ObjectMeta: s.extensionMeta(r.Type + "-" + w.Name),
				Spec: extensionsv1alpha1.ContainerRuntimeSpec{
					DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: r.Type, ProviderConfig: r.ProviderConfig},
					BinaryPath:  extensionsv1alpha1.ContainerRuntimeBinaryPath,
					WorkerPool: extensionsv1alpha1.ContainerRuntimeWorkerPool{
						Name:     w.Name,
						Selector: metav1.LabelSelector{MatchLabels: map[string]string{corev1beta1.LabelWorkerPool: w.Name}},
					},
				},
			})
		}
	}
	return out
}

func ensureContainerRuntimes(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return every(ctx, containerRuntimes(s), func(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
		return extensions.reconcile(ctx, extensionRequest{object: o, trigger: triggerAlways, severe: severeDefault})
	})
}

func ensureStaleContainerRuntimes(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	wanted := map[string]bool{}
	for _, o := range containerRuntimes(s) {
		wanted[o.GetName()] = true
	}
	return deleteContainerRuntimes(ctx, s, extensions,
		func(o extensionsv1alpha1.Object) bool { return !wanted[o.GetName()] })
}

func removeContainerRuntimes(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
	return deleteContainerRuntimes(ctx, s, extensions, func(extensionsv1alpha1.Object) bool { return true })
}

func deleteContainerRuntimes(
	ctx context.Context, s *Values, extensions *Extensions, match func(extensionsv1alpha1.Object) bool,
) (flow.Outcome, error) {
	objects, err := extensionobject.List(ctx, extensions.seed, s.Namespace,
		only(extensionsv1alpha1.ContainerRuntimeKind)...)
	if err != nil {
		return flow.Outcome{}, err
	}
	objects = slices.DeleteFunc(objects, func(o extensionsv1alpha1.Object) bool { return !match(o) })
	return every(ctx, objects, func(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
		return extensions.delete(ctx, o, severeDefault)
	})
}
