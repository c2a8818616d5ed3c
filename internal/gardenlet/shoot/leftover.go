package shoot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/ownership"
)

// leftoverPeriod is how soon the owner is looked up again, which cannot be watched.
const leftoverPeriod = 5 * time.Second

// Leftovers removes the leftovers on this seed of control planes that other seeds run: after a move, after a move that
// was aborted, and after this seed had been given up as dead. It acts only on what the Lease of the control plane says
// or, if the Shoot and its Lease have been deleted since, on what the seed that took it over has recorded. A Shoot that
// cannot be found is no reason to remove anything.
type Leftovers struct {
	// Garden reads and writes without a cache; Shoots reads those of this seed from the cache.
	Garden   client.Client
	Shoots   client.Reader
	Seed     client.Client
	Clock    clock.PassiveClock
	SeedName string
	Metrics  *Metrics // The metrics of the Reconciler; nil counts nothing.
	InOrder  bool     // As in the Reconciler.

	seen    kube.Versions
	applied kube.ApplyCache
}

// Reconcile handles one control plane, by the name of its namespace.
func (l *Leftovers) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	c := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
	if found, err := kube.Exists(ctx, l.Seed, c); err != nil || !found {
		return reconcile.Result{}, err
	}
	shoot := &corev1beta1.Shoot{}
	if err := json.Unmarshal(c.Spec.Shoot.Raw, shoot); err != nil {
		return reconcile.Result{}, fmt.Errorf("decode the Shoot of Cluster %q: %w", c.Name, err)
	}
	if here, err := l.here(ctx, shoot); err != nil || here {
		return reconcile.Result{}, err
	}
	claim, err := ownership.Read(ctx, l.Garden, shoot.Namespace, shoot.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	if claim.Epoch == 0 {
		if claim, err = ownership.Left(ctx, l.Garden, l.SeedName, shoot.UID); err != nil {
			return reconcile.Result{}, err
		}
	}
	epoch, err := steps.RunningEpoch(ctx, l.Seed, c.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case claim.Epoch == 0: // The Shoot has been deleted, or the garden does not know it.
		return reconcile.Result{RequeueAfter: passPeriod}, nil
	case claim.OlderThan(l.SeedName, epoch):
		log.FromContext(ctx).Info("A control plane continues that is newer than what the garden knows of it",
			"epoch", epoch, "owner", claim.Holder, "epochOfOwner", claim.Epoch)
		return reconcile.Result{RequeueAfter: passPeriod}, nil
	case !claim.Superseded(l.SeedName, epoch): // Not taken over yet.
		return reconcile.Result{RequeueAfter: leftoverPeriod}, nil
	}
	namespace := kube.NewNamespaceView(l.Seed, c.Name, &l.seen)
	graph, name := steps.StopLeftover(), flowStopLeftover
	if claim.Settled {
		graph, name = steps.RemoveLeftover(), flowRemoveLeftover
	}
	result := flow.Run(ctx, graph, &steps.Scope{
		Seed: namespace, SeedApplied: &l.applied, Clock: l.Clock, Values: steps.Values{Shoot: shoot, Namespace: c.Name},
	}, flow.Options{
		Clock: l.Clock, Transient: transient, Metrics: l.Metrics.ofFlows(), Flow: name, InOrder: l.InOrder,
	})
	logger := log.FromContext(ctx).WithValues("owner", claim.Holder, "epoch", claim.Epoch)
	switch {
	case len(result.Failed) > 0:
		return reconcile.Result{}, fmt.Errorf("remove what is left of the control plane: %w", result.Failed[0].Err)
	case !result.Complete():
		logger.V(1).Info("Removing what is left of a control plane", "progress", result.Description())
		return reconcile.Result{RequeueAfter: max(result.Recheck, time.Second)}, nil
	case !claim.Settled:
		return reconcile.Result{RequeueAfter: leftoverPeriod}, nil
	}
	l.applied.Forget(c.Name)
	logger.Info("Removed what was left of a control plane")
	if err := steps.RemoveCluster(ctx, l.Seed, c.Name); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, ownership.ForgetLeft(ctx, l.Garden, l.SeedName, shoot.UID)
}

// here reports whether the garden wants the control plane on this seed, or on its way to or from it.
func (l *Leftovers) here(ctx context.Context, shoot *corev1beta1.Shoot) (bool, error) {
	current := &corev1beta1.Shoot{}
	err := l.Shoots.Get(ctx, client.ObjectKeyFromObject(shoot), current)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Shoot %s/%s: %w", shoot.Namespace, shoot.Name, err)
	}
	return current.UID == shoot.UID &&
		(responsibleSeed(current) == l.SeedName || ptr.Deref(current.Spec.SeedName, "") == l.SeedName), nil
}

// AddToManager registers the controller. It handles every control plane once after a start, and when its Shoot leaves
// the seed.
func (l *Leftovers) AddToManager(mgr ctrl.Manager, seed cluster.Cluster) error {
	clusters := &metav1.PartialObjectMetadata{}
	clusters.SetGroupVersionKind(extensionsv1alpha1.SchemeGroupVersion.WithKind(extensionsv1alpha1.ClusterKind))
	enqueue := func(id string, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if id != "" {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: id}})
		}
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("shoot-leftover").
		WatchesRawSource(source.Kind[client.Object](seed.GetCache(), clusters,
			handler.TypedFuncs[client.Object, reconcile.Request]{
				CreateFunc: func(_ context.Context, e event.TypedCreateEvent[client.Object],
					q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
					enqueue(e.Object.GetName(), q)
				},
			})).
		Watches(&corev1beta1.Shoot{}, handler.Funcs{
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				enqueue(e.ObjectNew.(*corev1beta1.Shoot).Status.TechnicalID, q)
			},
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				if shoot, ok := e.Object.(*corev1beta1.Shoot); ok {
					enqueue(shoot.Status.TechnicalID, q)
				}
			},
		}, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			old, ok1 := e.ObjectOld.(*corev1beta1.Shoot)
			now, ok2 := e.ObjectNew.(*corev1beta1.Shoot)
			return ok1 && ok2 && l.leaves(old, now)
		}})).
		Complete(l)
	if err != nil {
		return fmt.Errorf("add controller shoot-leftover: %w", err)
	}
	return nil
}

// leaves reports whether an update has made the control plane another seed's.
func (l *Leftovers) leaves(old, now *corev1beta1.Shoot) bool {
	here := func(s *corev1beta1.Shoot) bool {
		return responsibleSeed(s) == l.SeedName || ptr.Deref(s.Spec.SeedName, "") == l.SeedName
	}
	return here(old) && !here(now)
}
