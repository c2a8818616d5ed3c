package cloudcontroller

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/cloud"
)

const (
	// finalizer is the one all cloud controllers use, so that a change of the controller leaves nothing behind.
	finalizer = "service.kubernetes.io/load-balancer-cleanup"
	// tagCluster and tagService name the cluster and the Service of a load balancer, for people.
	tagCluster = "kubernetes.io/cluster"
	tagService = "kubernetes.io/service"
	// deletionPoll is the interval at which a load balancer in deletion is checked. The cloud needs far less than a
	// second.
	deletionPoll = time.Second
)

// LoadBalancers is the part of the cloud that [Services] needs.
type LoadBalancers interface {
	CreateLoadBalancer(ctx context.Context, in cloud.CreateLoadBalancer) (*cloud.LoadBalancer, error)
	UpdateLoadBalancer(ctx context.Context, id string, in cloud.UpdateLoadBalancer) (*cloud.LoadBalancer, error)
	ListLoadBalancers(ctx context.Context, f cloud.Filter) ([]cloud.LoadBalancer, error)
	DeleteLoadBalancer(ctx context.Context, id string) error
}

// Services gives every Service of type LoadBalancer a load balancer of the cloud.
type Services struct {
	Client   client.Client
	Cloud    LoadBalancers
	Cluster  string // Value of the tag on all load balancers.
	Recorder events.EventRecorder
}

// SetupWithManager registers the reconciler.
func (r *Services) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("service").
		For(&corev1.Service{}, builder.WithPredicates(predicate.NewPredicateFuncs(concernsUs))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allServices), builder.WithPredicates(readinessChanged)).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.serviceOfSlice)).
		Complete(reconcile.AsReconciler(r.Client, r))
}

func concernsUs(obj client.Object) bool {
	svc, ok := obj.(*corev1.Service)
	return ok && (wantsLoadBalancer(svc) || controllerutil.ContainsFinalizer(svc, finalizer))
}

// readinessChanged lets only those node events pass that may change the set of targets.
var readinessChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && (ready(before) != ready(after) || before.Spec.ProviderID != after.Spec.ProviderID)
	},
}

func (r *Services) allServices(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &corev1.ServiceList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil // The cache only fails before it has started, and then every Service is queued anyway.
	}
	var out []reconcile.Request
	for i := range list.Items {
		if wantsLoadBalancer(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// serviceOfSlice queues the Service of an EndpointSlice if its targets depend on endpoints.
func (r *Services) serviceOfSlice(ctx context.Context, slice client.Object) []reconcile.Request {
	key := client.ObjectKey{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}
	svc := &corev1.Service{}
	if key.Name == "" || r.Client.Get(ctx, key, svc) != nil || !wantsLoadBalancer(svc) ||
		svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// Reconcile brings the load balancer of one Service in line with it.
func (r *Services) Reconcile(ctx context.Context, svc *corev1.Service) (reconcile.Result, error) {
	if !wantsLoadBalancer(svc) {
		return r.remove(ctx, svc)
	}
	if !controllerutil.ContainsFinalizer(svc, finalizer) {
		before := svc.DeepCopy()
		controllerutil.AddFinalizer(svc, finalizer)
		if err := r.Client.Patch(ctx, svc,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return reconcile.Result{}, fmt.Errorf("add finalizer to service %s: %w", client.ObjectKeyFromObject(svc), err)
		}
	}
	want, skipped, err := r.wanted(ctx, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(skipped) > 0 {
		r.Recorder.Eventf(svc, nil, corev1.EventTypeWarning, "UnsupportedProtocol", "SyncLoadBalancer",
			"Load balancers forward TCP only; left out: %s", strings.Join(skipped, ", "))
	}
	lb, err := r.ensure(ctx, svc, want)
	if err != nil {
		r.Recorder.Eventf(svc, nil, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "SyncLoadBalancer", "%v", err)
		return reconcile.Result{}, err
	}
	if lb.State == cloud.StateTerminating {
		return reconcile.Result{RequeueAfter: deletionPoll}, nil
	}
	before := svc.DeepCopy()
	svc.Status.LoadBalancer.Ingress = ingress(lb.Address)
	if reflect.DeepEqual(before.Status.LoadBalancer, svc.Status.LoadBalancer) {
		return reconcile.Result{}, nil
	}
	if err := r.Client.Status().Patch(ctx, svc, client.MergeFrom(before)); err != nil {
		return reconcile.Result{}, fmt.Errorf("patch status of service %s: %w", client.ObjectKeyFromObject(svc), err)
	}
	return reconcile.Result{}, nil
}

func (r *Services) wanted(ctx context.Context, svc *corev1.Service) ([]cloud.Listener, []string, error) {
	nodes, endpoints := &corev1.NodeList{}, &discoveryv1.EndpointSliceList{}
	if err := r.Client.List(ctx, nodes); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		if err := r.Client.List(ctx, endpoints, client.InNamespace(svc.Namespace),
			client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name}); err != nil {
			return nil, nil, fmt.Errorf("list endpoint slices of service %s: %w", client.ObjectKeyFromObject(svc), err)
		}
	}
	out, skipped := listeners(svc, nodes.Items, endpoints.Items)
	return out, skipped, nil
}

// ensure makes or updates the load balancer. One that is being deleted is returned as it is: its successor has the same
// name and has to wait. The create call returns the existing one of that name, so nothing is lost when the process
// stops in between.
func (r *Services) ensure(
	ctx context.Context, svc *corev1.Service, want []cloud.Listener,
) (*cloud.LoadBalancer, error) {
	in := cloud.CreateLoadBalancer{
		Name:      loadBalancerName(svc),
		Tags:      map[string]string{tagCluster: r.Cluster, tagService: svc.Namespace + "/" + svc.Name},
		Listeners: want,
		Address:   svc.Spec.LoadBalancerIP,
	}
	found, err := r.Cloud.ListLoadBalancers(ctx, cloud.Filter{Name: in.Name})
	if err != nil {
		return nil, fmt.Errorf("find load balancer of service %s: %w", client.ObjectKeyFromObject(svc), err)
	}
	if len(found) == 0 {
		ctrl.LoggerFrom(ctx).Info("Creating load balancer", "listeners", len(want))
		lb, err := r.Cloud.CreateLoadBalancer(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("create load balancer of service %s: %w", client.ObjectKeyFromObject(svc), err)
		}
		return lb, nil
	}
	lb := &found[0]
	if lb.State == cloud.StateTerminating || sameListeners(lb.Listeners, want) {
		return lb, nil
	}
	ctrl.LoggerFrom(ctx).Info("Updating load balancer", "loadBalancer", lb.ID, "listeners", len(want))
	lb, err = r.Cloud.UpdateLoadBalancer(ctx, lb.ID,
		cloud.UpdateLoadBalancer{
			Listeners: want, IdleTimeoutSeconds: lb.IdleTimeoutSeconds, AllowedCIDRs: lb.AllowedCIDRs,
		})
	if err != nil {
		return nil, fmt.Errorf("update load balancer of service %s: %w", client.ObjectKeyFromObject(svc), err)
	}
	return lb, nil
}

func sameListeners(a, b []cloud.Listener) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Port != b[i].Port || len(a[i].Targets) != len(b[i].Targets) {
			return false
		}
		for j := range a[i].Targets {
			if a[i].Targets[j] != b[i].Targets[j] {
				return false
			}
		}
	}
	return true
}

// remove deletes the load balancer and keeps the finalizer until it is gone.
func (r *Services) remove(ctx context.Context, svc *corev1.Service) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(svc, finalizer) {
		return reconcile.Result{}, nil
	}
	if svc.DeletionTimestamp.IsZero() && len(svc.Status.LoadBalancer.Ingress) > 0 {
		before := svc.DeepCopy()
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		if err := r.Client.Status().Patch(ctx, svc, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("clear status of service %s: %w", client.ObjectKeyFromObject(svc), err)
		}
	}
	found, err := r.Cloud.ListLoadBalancers(ctx, cloud.Filter{Name: loadBalancerName(svc)})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find load balancer of service %s: %w", client.ObjectKeyFromObject(svc), err)
	}
	for _, lb := range found {
		if lb.State == cloud.StateTerminating {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting load balancer", "loadBalancer", lb.ID)
		if err := r.Cloud.DeleteLoadBalancer(ctx, lb.ID); cloud.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("delete load balancer of service %s: %w", client.ObjectKeyFromObject(svc), err)
		}
	}
	if len(found) > 0 {
		return reconcile.Result{RequeueAfter: deletionPoll}, nil
	}
	before := svc.DeepCopy()
	controllerutil.RemoveFinalizer(svc, finalizer)
	if err := r.Client.Patch(ctx, svc,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove finalizer from service %s: %w", client.ObjectKeyFromObject(svc), err)
	}
	return reconcile.Result{}, nil
}
