// Package networkpolicy keeps the NetworkPolicies of a seed, and the lists of what API servers of Shoots may
// call in it, as package internal/networkpolicy computes them.
package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/networkpolicy"
)

// apiService is the name of the Service, and of the label of its EndpointSlices, of a cluster's API server.
const apiService = "kubernetes"

// Reconciler keeps the policies of one namespace per request, and for the namespace of a control plane the list of
// webhooks in the seed that its API server may call.
type Reconciler struct {
	Client client.Client // Reads from a cache.
	Live   client.Reader // Lists the pods of a control plane when their list of webhooks has changed.
	// Cluster and Blocked are ranges as in [networkpolicy.Networks].
	Cluster, Blocked []netip.Prefix
}

// AddToManager registers the reconciler.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("network-policy").
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.ofService), builder.WithPredicates(serviceChanged)).
		Watches(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(ofOwn)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ofOwn)).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.ofAPI)).
		Complete(r)
}

// Cache limits the cache of kinds with many objects: to the controller's own NetworkPolicies and ConfigMaps, and to the
// EndpointSlices of the API server.
func Cache() map[client.Object]cache.ByObject {
	api := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: apiService})
	return map[client.Object]cache.ByObject{
		&networkingv1.NetworkPolicy{}: {Label: networkpolicy.OwnSelector()},
		&corev1.ConfigMap{}:           {Label: networkpolicy.OwnSelector()},
		&discoveryv1.EndpointSlice{}:  {Namespaces: map[string]cache.Config{metav1.NamespaceDefault: {LabelSelector: api}}},
	}
}

// serviceChanged drops updates of Services that leave their policies as they are.
var serviceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*corev1.Service)
	after, ok2 := e.ObjectNew.(*corev1.Service)
	return ok1 && ok2 && (before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Annotations, after.Annotations))
}}

func request(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

// ofNamespace enqueues the namespace, those whose Services its pods may reach now, or no longer, and those of the
// clients of its own Services.
func (r *Reconciler) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	ns, ok := o.(*corev1.Namespace)
	if !ok {
		return nil
	}
	out := []reconcile.Request{request(ns.Name)}
	services := &corev1.ServiceList{}
	if err := r.Client.List(ctx, services, client.UnsafeDisableDeepCopy); err != nil {
		return out
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Namespace == ns.Name {
			out = append(out, r.ofService(ctx, s)...)
		} else if len(networkpolicy.ClientNamespaces(s, []*corev1.Namespace{ns})) > 0 {
			out = append(out, request(s.Namespace))
		}
	}
	return out
}

// ofService enqueues the namespace of the Service, and those of its clients.
func (r *Reconciler) ofService(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	out := []reconcile.Request{request(s.Namespace)}
	namespaces := &corev1.NamespaceList{}
	if err := r.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return out
	}
	for _, name := range networkpolicy.ClientNamespaces(s, pointers(namespaces.Items)) {
		out = append(out, request(name))
	}
	return out
}

// ofOwn enqueues the namespace of an object that the controller makes.
func ofOwn(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{request(o.GetNamespace())}
}

// ofAPI enqueues all namespaces when the addresses of the API server change.
func (r *Reconciler) ofAPI(ctx context.Context, _ client.Object) []reconcile.Request {
	namespaces := &corev1.NamespaceList{}
	if err := r.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range namespaces.Items {
		if networkpolicy.Managed(&namespaces.Items[i]) {
			out = append(out, request(namespaces.Items[i].Name))
		}
	}
	return out
}

// Reconcile creates, updates and deletes the objects of one namespace. It continues with the others if some fail.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	namespaces, services, current := &corev1.NamespaceList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}
	if err := errors.Join(
		r.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy),
		r.Client.List(ctx, services, client.UnsafeDisableDeepCopy),
		r.Client.List(ctx, current, client.InNamespace(req.Name),
			client.MatchingLabelsSelector{Selector: networkpolicy.OwnSelector()}, client.UnsafeDisableDeepCopy),
	); err != nil {
		return reconcile.Result{}, fmt.Errorf("list namespaces, Services and NetworkPolicies: %w", err)
	}
	if slices.ContainsFunc(namespaces.Items, func(ns corev1.Namespace) bool {
		return ns.Name == req.Name && ns.DeletionTimestamp != nil
	}) {
		return reconcile.Result{}, nil // The policies are deleted with the namespace, and protect its pods until then.
	}
	addresses, err := r.apiAddresses(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	desired, problem := networkpolicy.Desired(req.Name, pointers(namespaces.Items), pointers(services.Items),
		networkpolicy.Networks{Cluster: r.Cluster, Blocked: r.Blocked, API: addresses})
	if problem != nil {
		ctrl.LoggerFrom(ctx).Error(problem, "Some annotations of Services have no effect on network policies", "namespace",
			req.Name)
	}
	return reconcile.Result{}, errors.Join(r.apply(ctx, desired, current.Items),
		r.applyTargets(ctx, req.Name, pointers(namespaces.Items), pointers(services.Items)))
}

// apply writes the differences. What allows is created before what denies, and deleted after it: pods are never cut off
// in between. So the namespace is not isolated as long as a policy that allows something cannot be written.
func (r *Reconciler) apply(
	ctx context.Context, desired []*networkingv1.NetworkPolicy, current []networkingv1.NetworkPolicy,
) error {
	have := map[string]*networkingv1.NetworkPolicy{}
	for i := range current {
		have[current[i].Name] = &current[i]
	}
	denyLast := slices.Clone(desired)
	slices.SortStableFunc(denyLast, func(a, b *networkingv1.NetworkPolicy) int { return order(a.Name) - order(b.Name) })
	var errs []error
	for _, want := range denyLast {
		old := have[want.Name]
		delete(have, want.Name)
		switch {
		case old == nil && want.Name == networkpolicy.DenyAll && len(errs) > 0:
			// It is created by the next attempt.
		case old == nil:
			if err := r.Client.Create(ctx, want); err != nil {
				errs = append(errs, fmt.Errorf("create NetworkPolicy %s/%s: %w", want.Namespace, want.Name, err))
			}
		case !equality.Semantic.DeepEqual(old.Spec, want.Spec):
			changed := old.DeepCopy()
			changed.Spec = want.Spec
			if err := r.Client.Update(ctx, changed); err != nil {
				errs = append(errs, fmt.Errorf("update NetworkPolicy %s/%s: %w", want.Namespace, want.Name, err))
			}
		}
	}
	denyFirst := slices.SortedFunc(maps.Keys(have), func(a, b string) int {
		return cmp.Or(order(b)-order(a), strings.Compare(a, b))
	})
	for _, name := range denyFirst {
		old := have[name]
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, old.DeepCopy())); err != nil {
			errs = append(errs, fmt.Errorf("delete NetworkPolicy %s/%s: %w", old.Namespace, name, err))
			if name == networkpolicy.DenyAll {
				break
			}
		}
	}
	return errors.Join(errs...)
}

func order(name string) int {
	if name == networkpolicy.DenyAll {
		return 1
	}
	return 0
}

// apiAddresses returns where the cluster's API server answers: at its Service, and behind it.
func (r *Reconciler) apiAddresses(ctx context.Context) ([]netip.AddrPort, error) {
	service := &corev1.Service{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: apiService},
		service); err != nil {
		return nil, fmt.Errorf("read the Service of the API server: %w", err)
	}
	var out []netip.AddrPort
	for _, ip := range service.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			for _, p := range service.Spec.Ports {
				out = append(out, netip.AddrPortFrom(addr, uint16(p.Port)))
			}
		}
	}
	slicesOf := &discoveryv1.EndpointSliceList{}
	if err := r.Client.List(ctx, slicesOf); err != nil {
		return nil, fmt.Errorf("list the endpoints of the API server: %w", err)
	}
	for _, s := range slicesOf.Items {
		for _, endpoint := range s.Endpoints {
			for _, a := range endpoint.Addresses {
				addr, err := netip.ParseAddr(a)
				if err != nil {
					continue
				}
				for _, p := range s.Ports {
					if p.Port != nil {
						out = append(out, netip.AddrPortFrom(addr, uint16(*p.Port)))
					}
				}
			}
		}
	}
	return out, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
