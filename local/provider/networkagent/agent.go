package networkagent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Agent keeps one machine in line with all Nodes.
type Agent struct {
	Client client.Reader
	Self   string            // Name of the machine's own Node.
	Apply  func(State) error // Changes the machine.

	configured atomic.Bool // The machine can start pods.
}

// SetupWithManager registers the reconciler. All events require the same work, so they share one request.
func (a *Agent) SetupWithManager(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: a.Self}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("network-agent").
		Watches(&corev1.Node{}, one, builder.WithPredicates(networkChanged)).
		Complete(a)
}

// networkChanged drops the heartbeats of nodes.
var networkChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		if !ok1 || !ok2 {
			return false
		}
		oldPods, _ := podNetwork(before)
		newPods, _ := podNetwork(after)
		oldIP, _ := internalIP(before)
		newIP, _ := internalIP(after)
		return oldPods != newPods || oldIP != newIP
	},
}

// Reconcile applies the state that follows from all Nodes.
func (a *Agent) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	nodes := &corev1.NodeList{}
	if err := a.Client.List(ctx, nodes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	state := Decide(nodes.Items, a.Self)
	if err := a.Apply(state); err != nil {
		return reconcile.Result{}, err
	}
	if state.Pods.IsValid() && !a.configured.Swap(true) {
		ctrl.LoggerFrom(ctx).Info("Pod network is configured", "pods", state.Pods, "routes", len(state.Routes))
	}
	return reconcile.Result{}, nil
}

// Ready is a readiness check: the machine can start pods.
func (a *Agent) Ready(*http.Request) error {
	if !a.configured.Load() {
		return errors.New("the node has no pod network yet")
	}
	return nil
}
