package cloudcontroller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
)

// Instances is the part of the cloud that [Nodes] needs.
type Instances interface {
	GetInstance(ctx context.Context, id string) (*cloud.Instance, error)
	ListInstances(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error)
}

// Nodes completes Nodes with data of the cloud, and deletes those whose instance is gone.
type Nodes struct {
	Client client.Client
	Cloud  Instances
}

// recheckUnready is the interval at which the instance of an unready node is looked up: rare enough to cost nothing,
// often enough that the pods of a dead node move on in a few minutes.
const recheckUnready = time.Minute

// SetupWithManager registers the reconciler.
func (r *Nodes) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&corev1.Node{}, builder.WithPredicates(incompleteOrUnready)).
		Complete(reconcile.AsReconciler(r.Client, r))
}

// incompleteOrUnready drops the heartbeats of healthy nodes.
var incompleteOrUnready = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && (!nodeComplete(after) || (isReady(before) && !isReady(after)))
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Reconcile completes one Node, or deletes it when its instance is gone.
func (r *Nodes) Reconcile(ctx context.Context, node *corev1.Node) (reconcile.Result, error) {
	if !node.DeletionTimestamp.IsZero() || (nodeComplete(node) && isReady(node)) {
		return reconcile.Result{}, nil
	}
	instance, err := r.find(ctx, node)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find instance of node %q: %w", node.Name, err)
	}
	if instance == nil {
		if id := instanceID(node.Spec.ProviderID); id != "" && !isReady(node) {
			ctrl.LoggerFrom(ctx).Info("Deleting node of a missing instance", "instance", id)
			if err := r.Client.Delete(ctx, node, client.Preconditions{UID: &node.UID}); client.IgnoreNotFound(err) != nil {
				return reconcile.Result{}, fmt.Errorf("delete node %q: %w", node.Name, err)
			}
		}
		return reconcile.Result{RequeueAfter: recheckUnready}, nil
	}
	before := node.DeepCopy()
	if completeNode(node, instance) {
		if err := r.Client.Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
			return reconcile.Result{}, fmt.Errorf("patch node %q: %w", node.Name, err)
		}
	}
	if !hasInternalIP(node) && instance.Address != "" {
		before = node.DeepCopy()
		node.Status.Addresses = append(node.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: instance.Address})
		if err := r.Client.Status().Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
			return reconcile.Result{}, fmt.Errorf("patch addresses of node %q: %w", node.Name, err)
		}
	}
	if !isReady(node) {
		return reconcile.Result{RequeueAfter: recheckUnready}, nil
	}
	return reconcile.Result{}, nil
}

// find returns the instance of a node, or nil if there is none. A node without provider ID is looked up by its name,
// which is the instance's host name.
func (r *Nodes) find(ctx context.Context, node *corev1.Node) (*cloud.Instance, error) {
	if id := instanceID(node.Spec.ProviderID); id != "" {
		instance, err := r.Cloud.GetInstance(ctx, id)
		if cloud.IsNotFound(err) {
			return nil, nil
		}
		return instance, err
	}
	found, err := r.Cloud.ListInstances(ctx, cloud.Filter{Name: node.Name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
