package gateway

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Reconciler rebuilds the routing table whenever a TLSRoute or a Service changes.
type Reconciler struct {
	Seed    client.Reader // Cached.
	Gateway types.NamespacedName
	Server  *Server
	// Built is called after each rebuild; readiness waits for the first one.
	Built func()
}

// AddToManager registers the controller. All events lead to the same request, so that a burst is one rebuild.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	toTable := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "table"}}}
	})
	elected := false // Every replica needs its own table.
	err := ctrl.NewControllerManagedBy(mgr).
		Named("routing-table").
		WithOptions(controller.Options{NeedLeaderElection: &elected}).
		Watches(&gatewayv1.TLSRoute{}, toTable).
		Watches(&corev1.Service{}, toTable).
		Complete(r)
	if err != nil {
		return fmt.Errorf("create routing table controller: %w", err)
	}
	return nil
}

// Reconcile builds the table from the cache and gives it to the server.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var routes gatewayv1.TLSRouteList
	if err := r.Seed.List(ctx, &routes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list TLSRoutes: %w", err)
	}
	var services corev1.ServiceList
	if err := r.Seed.List(ctx, &services); err != nil {
		return reconcile.Result{}, fmt.Errorf("list Services: %w", err)
	}
	table, problems := BuildTable(Observed{Routes: routes.Items, Services: services.Items}, r.Gateway)
	for _, p := range problems {
		ctrl.LoggerFrom(ctx).V(1).Info("Route is not served completely", "TLSRoute", p.Route.String(), "reason", p.Reason)
	}
	r.Server.SetTable(table)
	r.Built()
	return reconcile.Result{}, nil
}
