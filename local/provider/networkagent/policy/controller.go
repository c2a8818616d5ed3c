package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// minInterval is the pause between two passes: a burst of changes costs one pass at its beginning and then ten per
// second.
const minInterval = 100 * time.Millisecond

// Kernel enforces rules; Table implements it.
type Kernel interface {
	Replace(Ruleset) error // Replaces all rules by the ruleset.
	Apply(Change) error    // Changes the existing rules, or fails and changes nothing.
}

// Controller keeps the rules of one node in line with all Pods, Namespaces and NetworkPolicies.
type Controller struct {
	Client  client.Reader // With the cache of CacheOptions.
	API     client.Reader // Without cache.
	Clock   clock.Clock
	Kernel  Kernel
	Node    string         // Name of the own Node.
	Refused []netip.Prefix // See Observed.
	Metrics *Metrics

	sandboxes sandboxes
	woken     chan event.GenericEvent // With a buffer of one. Nil before SetupWithManager.

	applied  *Ruleset  // The rules in the kernel; nil: unknown.
	lastPass time.Time // End of the last pass that succeeded.
	ready    atomic.Bool
}

// SetupWithManager registers the controller. All events require the same work, so they share one request.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: c.Node}}}
	})
	c.woken = make(chan event.GenericEvent, 1)
	return ctrl.NewControllerManagedBy(mgr).Named("network-policy").
		WatchesRawSource(source.Channel(c.woken, one)).
		Watches(&corev1.Pod{}, one, builder.WithPredicates(podEvents(c.sandboxes.has))).
		Watches(&corev1.Namespace{}, one, builder.WithPredicates(namespaceChanged)).
		Watches(&networkingv1.NetworkPolicy{}, one, builder.WithPredicates(policyChanged)).
		Complete(c)
}

// Reconcile applies the rules that follow from all objects. It runs only once the caches are filled. Pods that wait for
// their rules to start are not made to wait for the pause between passes.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if wait := minInterval - c.Clock.Since(c.lastPass); !c.lastPass.IsZero() && wait > 0 && !c.urgent(ctx) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	observed, err := c.observe(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	answer := c.sandboxes.match(&observed)
	next := Decide(observed)
	if err := c.write(ctx, next); err != nil {
		return reconcile.Result{}, err
	}
	answer()
	c.Metrics.describe(next, len(observed.Policies))
	c.lastPass = c.Clock.Now()
	if !c.ready.Swap(true) {
		ctrl.LoggerFrom(ctx).Info("Policies are enforced", "policies", len(observed.Policies), "pods", len(observed.Pods))
	}
	return reconcile.Result{}, nil
}

// urgent reports whether a pass lets a pod start.
func (c *Controller) urgent(ctx context.Context) bool {
	return c.sandboxes.waiting(func(s hook.Sandbox) bool {
		var p corev1.Pod
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &p)
		return err == nil && matches(s, &p)
	})
}

// observe reads the caches without copying; Decide changes nothing.
func (c *Controller) observe(ctx context.Context) (Observed, error) {
	var pods corev1.PodList
	var namespaces corev1.NamespaceList
	var policies networkingv1.NetworkPolicyList
	for _, list := range []client.ObjectList{&pods, &namespaces, &policies} {
		if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return Observed{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	return Observed{
		Node: c.Node, Pods: pods.Items, Namespaces: namespaces.Items, Policies: policies.Items, Refused: c.Refused,
	}, nil
}

// write brings the kernel from the rules it has to the next ones. If the kernel refuses a change, because another
// program has changed the table, the rules are replaced.
func (c *Controller) write(ctx context.Context, next Ruleset) error {
	log := ctrl.LoggerFrom(ctx)
	if c.applied != nil {
		change := Diff(*c.applied, next)
		if change.Empty() {
			return nil
		}
		err := c.Kernel.Apply(change)
		if err == nil {
			c.applied = &next
			c.Metrics.changes.WithLabelValues(changed).Inc()
			return nil
		}
		log.Error(err, "Replacing all rules, because they cannot be changed")
		c.applied = nil
	}
	if err := c.Kernel.Replace(next); err != nil {
		return fmt.Errorf("replace all rules: %w", err)
	}
	c.applied = &next
	c.Metrics.changes.WithLabelValues(replaced).Inc()
	return nil
}

// Ready is a readiness check: policies are enforced.
func (c *Controller) Ready(*http.Request) error {
	if !c.ready.Load() {
		return errors.New("network policies are not enforced yet")
	}
	return nil
}
