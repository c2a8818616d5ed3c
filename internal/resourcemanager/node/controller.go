package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// recheck is the interval of checks for changes that no watch reports.
	recheck = 10 * time.Second
	// recheckDrivers is the interval of checks for the registration of CSI drivers, which takes kubelets a second or two
	// after the pod of the driver is ready. New nodes accept no pods meanwhile.
	recheckDrivers = time.Second
	// indexNode finds pods by node.
	indexNode = "spec.nodeName"
)

// Readiness removes the taint from nodes whose critical components run. It never adds the taint again.
type Readiness struct {
	Target   client.Client // Cached reads of nodes and of critical DaemonSets and pods, direct writes.
	Reader   client.Reader // Direct.
	Recorder events.EventRecorder
}

// AddToManager registers the controller for the target cluster's cache.
func (r *Readiness) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	err := target.IndexField(context.Background(), &corev1.Pod{}, indexNode, func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil {
		return fmt.Errorf("index pods: %w", err)
	}
	nodes := source.Kind(target, &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{},
		predicate.NewTypedPredicateFuncs(tainted))
	// Only the end of the wait matters, which is always a change of a critical pod.
	pods := source.Kind(target, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, p *corev1.Pod) []reconcile.Request {
			if p.Spec.NodeName == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: p.Spec.NodeName}}}
		}))
	err = ctrl.NewControllerManagedBy(mgr).Named("node-readiness").
		WatchesRawSource(nodes).WatchesRawSource(pods).Complete(r)
	if err != nil {
		return fmt.Errorf("create node readiness controller: %w", err)
	}
	return nil
}

// Reconcile checks one node.
func (r *Readiness) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Target.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !tainted(node) || node.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	o, err := r.observe(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	if v := judge(o); v.reason != "" {
		r.Recorder.Eventf(node, nil, corev1.EventTypeWarning, v.reason, "CheckReadiness", v.message)
		if v.reason == reasonDrivers {
			return reconcile.Result{RequeueAfter: recheckDrivers}, nil
		}
		return reconcile.Result{RequeueAfter: recheck}, nil
	}
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintNotReady })
	if err := r.Target.Patch(ctx, node,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{RequeueAfter: time.Second}, nil
		}
		return reconcile.Result{}, fmt.Errorf("remove taint: %w", err)
	}
	r.Recorder.Eventf(node, nil, corev1.EventTypeNormal, reasonReady, "CheckReadiness",
		"All critical components of the node are ready")
	ctrl.LoggerFrom(ctx).Info("Removed the taint of Node, whose critical components are ready")
	return reconcile.Result{}, nil
}

func (r *Readiness) observe(ctx context.Context, node *corev1.Node) (observed, error) {
	o := observed{node: node}
	var sets appsv1.DaemonSetList
	if err := r.Target.List(ctx, &sets, client.MatchingLabels{LabelCritical: "true"}); err != nil {
		return o, fmt.Errorf("list DaemonSets: %w", err)
	}
	o.daemonSets = sets.Items
	var pods corev1.PodList
	if err := r.Target.List(ctx, &pods, client.MatchingLabels{LabelCritical: "true"},
		client.MatchingFields{indexNode: node.Name}); err != nil {
		return o, fmt.Errorf("list pods: %w", err)
	}
	o.pods = pods.Items
	if missingDrivers(o).reason == "" {
		return o, nil // No pod requires a driver.
	}
	var csi storagev1.CSINode
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(node), &csi); client.IgnoreNotFound(err) != nil {
		return o, fmt.Errorf("read CSINode: %w", err)
	}
	for _, d := range csi.Spec.Drivers {
		o.drivers = append(o.drivers, d.Name)
	}
	return o, nil
}

// AnnotationDelay is how long a node agent waits before it applies a change.
const AnnotationDelay = "node-agent.gardener.cloud/reconciliation-delay"

// Delay spreads the changes of the node agents over the time from Min to Max.
type Delay struct {
	Target   client.Client
	Min, Max time.Duration
}

// AddToManager registers the controller. All nodes share one request, since each node's delay depends on all others.
func (d *Delay) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	membership := predicate.TypedFuncs[*corev1.Node]{}
	membership.UpdateFunc = func(e event.TypedUpdateEvent[*corev1.Node]) bool {
		return e.ObjectOld.Annotations[AnnotationDelay] != e.ObjectNew.Annotations[AnnotationDelay]
	}
	nodes := source.Kind(target, &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, *corev1.Node) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "nodes"}}}
		}), membership)
	if err := ctrl.NewControllerManagedBy(mgr).Named("node-agent-delay").WatchesRawSource(nodes).Complete(d); err != nil {
		return fmt.Errorf("create node-agent delay controller: %w", err)
	}
	return nil
}

// Reconcile corrects the delays of all nodes.
func (d *Delay) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var nodes corev1.NodeList
	if err := d.Target.List(ctx, &nodes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range nodes.Items {
		n := &nodes.Items[i]
		want := delay(i, len(nodes.Items), d.Min, d.Max).String()
		if n.Annotations[AnnotationDelay] == want {
			continue
		}
		before := n.DeepCopy()
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[AnnotationDelay] = want
		if err := d.Target.Patch(ctx, n, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("annotate node %q: %w", n.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// delay is that of node i of n, sorted by name.
func delay(i, n int, low, high time.Duration) time.Duration {
	return low + time.Duration(i)*(high-low)/time.Duration(n)
}
