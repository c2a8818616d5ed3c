package steps

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
)

// The extensions of a Shoot run at three points of a reconciliation and two of a deletion, as specified in their
// registration.
var (
	ExtensionsBeforeKubeAPIServer = &flow.Step[*Scope]{
		Name:   "extensions-before-kube-apiserver",
		After:  []*flow.Step[*Scope]{Credentials, References, Infrastructure},
		SkipIf: when(asleep, withoutExtensions(corev1beta1.BeforeKubeAPIServer)),
		// The API server needs no infrastructure; a broken one must not keep it from getting new certificates.
		SkipAtOnce: true,
		Ensure:     use2(ensureExtensions(corev1beta1.BeforeKubeAPIServer)),
		// A deletion passes the steps backwards: extensions that are deleted after the API server are removed here.
		Remove: use3(removeExtensions(corev1beta1.AfterKubeAPIServer)),
	}
	ExtensionsAfterKubeAPIServer = &flow.Step[*Scope]{
		Name:   "extensions-after-kube-apiserver",
		After:  []*flow.Step[*Scope]{Infrastructure, KubeAPIServerReady, ManagedResources},
		SkipIf: when(asleep, withoutExtensions(corev1beta1.AfterKubeAPIServer)),
		Ensure: use2(ensureExtensions(corev1beta1.AfterKubeAPIServer)),
		Remove: use3(removeExtensions(corev1beta1.BeforeKubeAPIServer)),
	}
	ExtensionsAfterWorker = &flow.Step[*Scope]{
		Name:   "extensions-after-worker",
		After:  []*flow.Step[*Scope]{Worker},
		SkipIf: when(asleep, withoutExtensions(corev1beta1.AfterWorker)),
		Ensure: use2(ensureExtensions(corev1beta1.AfterWorker)),
	}
	// StaleExtensions deletes Extension objects that are no longer required.
	StaleExtensions = &flow.Step[*Scope]{
		Name:   "stale-extensions",
		After:  []*flow.Step[*Scope]{KubeAPIServerReady},
		SkipIf: when(asleep),
		Ensure: use3(ensureStaleExtensions),
	}
)

// wantedExtension is an extension of the Shoot with what its registration says about it.
type wantedExtension struct {
	spec      corev1beta1.Extension
	reconcile corev1beta1.ControllerResourceLifecycleStrategy
	// timeout is how long a reconciliation may take.
	timeout time.Duration
}

// wantedExtensions are the extensions that the Shoot requests and those that are enabled for all, sorted by type.
func wantedExtensions(shoot *corev1beta1.Shoot, registrations []corev1beta1.ControllerRegistration) []wantedExtension {
	workerless := len(shoot.Spec.Provider.Workers) == 0
	var out []wantedExtension
	for _, r := range registrations {
		for _, resource := range r.Spec.Resources {
			if resource.Kind != extensionsv1alpha1.ExtensionKind ||
				(workerless && !ptr.Deref(resource.WorkerlessSupported, false)) {
				continue
			}
			spec := corev1beta1.Extension{Type: resource.Type}
			enabled := resource.EnabledByDefault(corev1beta1.ClusterTypeShoot)
			for _, e := range shoot.Spec.Extensions {
				if e.Type == resource.Type {
					spec, enabled = e, !ptr.Deref(e.Disabled, false)
				}
			}
			if !enabled {
				continue
			}
			w := wantedExtension{spec: spec, reconcile: corev1beta1.AfterKubeAPIServer}
			if t := resource.ReconcileTimeout; t != nil { // Defaulting sets it.
				w.timeout = t.Duration
			}
			if l := resource.Lifecycle; l != nil && l.Reconcile != nil {
				w.reconcile = *l.Reconcile
			}
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b wantedExtension) int {
		if a.spec.Type < b.spec.Type {
			return -1
		}
		return 1
	})
	return out
}

// extensionTypes are the types of a Shoot's extensions, sorted: what it requests, registered or not, and what is
// enabled for all.
func extensionTypes(shoot *corev1beta1.Shoot, registrations []corev1beta1.ControllerRegistration) []string {
	var types []string
	for _, e := range shoot.Spec.Extensions {
		if !ptr.Deref(e.Disabled, false) {
			types = append(types, e.Type)
		}
	}
	for _, w := range wantedExtensions(shoot, registrations) {
		types = append(types, w.spec.Type)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

func withoutExtensions(point corev1beta1.ControllerResourceLifecycleStrategy) func(*Values) string {
	return func(s *Values) string {
		for _, w := range wantedExtensions(s.Shoot, s.Registered) {
			if w.reconcile == point {
				return ""
			}
		}
		return "no extensions"
	}
}

func ensureExtensions(
	point corev1beta1.ControllerResourceLifecycleStrategy,
) func(context.Context, *Values, *Extensions) (flow.Outcome, error) {
	return func(ctx context.Context, s *Values, extensions *Extensions) (flow.Outcome, error) {
		wanted := slices.DeleteFunc(wantedExtensions(s.Shoot, s.Registered),
			func(w wantedExtension) bool { return w.reconcile != point })
		return every(ctx, wanted, func(ctx context.Context, w wantedExtension) (flow.Outcome, error) {
			return extensions.reconcile(ctx, extensionRequest{
				object: &extensionsv1alpha1.Extension{
					ObjectMeta: s.extensionMeta(w.spec.Type),
					Spec: extensionsv1alpha1.ExtensionSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{
						Type: w.spec.Type, ProviderConfig: w.spec.ProviderConfig,
					}},
				},
				trigger: triggerAlways, severe: severeDefault, timeout: w.timeout,
			})
		})
	}
}

func ensureStaleExtensions(
	ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions,
) (flow.Outcome, error) {
	wanted := map[string]bool{}
	for _, w := range wantedExtensions(s.Shoot, s.Registered) {
		wanted[w.spec.Type] = true
	}
	return deleteExtensions(ctx, seed, extensions,
		func(e *extensionsv1alpha1.Extension) bool { return !wanted[e.Spec.Type] })
}

// removeExtensions deletes the extensions whose turn is at the point of a deletion; the default is before the API
// server.
func removeExtensions(
	point corev1beta1.ControllerResourceLifecycleStrategy,
) func(context.Context, *Values, *SeedNamespace, *Extensions) (flow.Outcome, error) {
	return func(ctx context.Context, s *Values, seed *SeedNamespace, extensions *Extensions) (flow.Outcome, error) {
		after := map[string]bool{}
		for _, r := range s.Registered {
			for _, resource := range r.Spec.Resources {
				if resource.Kind == extensionsv1alpha1.ExtensionKind && resource.Lifecycle != nil {
					after[resource.Type] = ptr.Deref(resource.Lifecycle.Delete,
						corev1beta1.BeforeKubeAPIServer) == corev1beta1.AfterKubeAPIServer
				}
			}
		}
		return deleteExtensions(ctx, seed, extensions, func(e *extensionsv1alpha1.Extension) bool {
			// At the last point all remaining objects are deleted.
			return point == corev1beta1.AfterKubeAPIServer || !after[e.Spec.Type]
		})
	}
}

func deleteExtensions(
	ctx context.Context, seed *SeedNamespace, extensions *Extensions, match func(*extensionsv1alpha1.Extension) bool,
) (flow.Outcome, error) {
	list := &extensionsv1alpha1.ExtensionList{}
	if err := seed.List(ctx, list, client.InNamespace(seed.namespace)); err != nil {
		return flow.Outcome{}, fmt.Errorf("list Extensions: %w", err)
	}
	var stale []extensionsv1alpha1.Object
	for i := range list.Items {
		if match(&list.Items[i]) {
			stale = append(stale, &list.Items[i])
		}
	}
	return every(ctx, stale, func(ctx context.Context, o extensionsv1alpha1.Object) (flow.Outcome, error) {
		return extensions.delete(ctx, o, severeDefault)
	})
}
