package csr

import (
	"context"
	"fmt"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
)

// reason is that of the conditions on requests.
const reason = "HortusResourceManager"

// Reconciler approves or denies requests. A decision cannot be revoked, so the nodes and machines on which it is based
// are read directly; the caches are sufficient to see that a request cannot be decided yet.
type Reconciler struct {
	Target       client.Client // Cached reads, direct writes.
	TargetReader client.Reader // Direct.
	Machines     client.Reader // Of the source cluster, cached.
	Source       client.Reader // Direct.
	Namespace    string        // Of the Machines in the source cluster.
	// Grants gives a machine its permissions before it gets a certificate to use them.
	Grants machineaccess.Grants
	Clock  clock.PassiveClock
}

// AddToManager registers the controller for the target cluster's cache. Undecided requests are checked again when a
// machine gets its node.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	requests := source.Kind(target, &certificatesv1.CertificateSigningRequest{},
		&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{},
		predicate.NewTypedPredicateFuncs(ours))
	if err := ctrl.NewControllerManagedBy(mgr).Named("csr-approver").WatchesRawSource(requests).
		Watches(&machinev1alpha1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.open), builder.WithPredicates(nodeKnown)).
		Complete(r); err != nil {
		return fmt.Errorf("create CSR approver: %w", err)
	}
	return nil
}

// nodeKnown passes machines that are new or have got another node.
var nodeKnown = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetLabels()[machinev1alpha1.NodeLabelKey] != e.ObjectNew.GetLabels()[machinev1alpha1.NodeLabelKey]
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// open returns all requests that are still to be decided.
func (r *Reconciler) open(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := r.Target.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list certificate requests in the cache")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if ours(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile decides one request.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := r.Target.Get(ctx, req.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !ours(request) {
		return reconcile.Result{}, nil
	}
	v, machines, err := r.decide(ctx, request, view{r.Target, r.cachedMachines, r.cachedNodes})
	if err == nil && v.final() {
		v, machines, err = r.decide(ctx, request, view{r.TargetReader, r.directMachines, r.directNodes})
	}
	if err == nil && v.searched {
		v, machines, err = r.decide(ctx, request, view{r.TargetReader, r.allMachines, r.directNodes})
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	switch v.decision {
	case ignore:
		ctrl.LoggerFrom(ctx).V(1).Info("Leaving CertificateSigningRequest to the owner of the Shoot",
			"CertificateSigningRequest", request.Name, "requester", request.Spec.Username, "reason", v.message)
		return reconcile.Result{}, nil
	case later:
		ctrl.LoggerFrom(ctx).V(1).Info("CertificateSigningRequest cannot be decided yet",
			"CertificateSigningRequest", request.Name, "requester", request.Spec.Username, "reason", v.message)
		return reconcile.Result{RequeueAfter: again(now.Sub(request.CreationTimestamp.Time))}, nil
	}
	for i := range machines {
		if v.decision == approve && machines[i].Name == v.machine {
			if err := r.Grants.Ensure(ctx, machineaccess.Of(&machines[i])); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	d := csr.Decision{Approved: v.decision == approve, Reason: reason, Message: v.message}
	return reconcile.Result{}, csr.Write(ctx, r.Target, request, d, now)
}

// decide returns what happens to a request, and the machines that this was decided from.
func (r *Reconciler) decide(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest, from view,
) (verdict, []machinev1alpha1.Machine, error) {
	about := subjectOf(request)
	machines, err := from.machines(ctx, about)
	if err != nil {
		return verdict{}, nil, err
	}
	var f facts
	for i := range machines {
		f.machines = append(f.machines, machineOf(&machines[i]))
	}
	// A Node without a machine makes no difference.
	if name := f.nodeName(request); len(f.having(name)) > 0 {
		if f.node, err = node(ctx, from.target, name); err != nil {
			return verdict{}, nil, err
		}
	}
	switch request.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientSignerName:
		return nodeAgent(request, f), machines, nil
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return kubeletClient(request, f), machines, nil
	}
	if f.nodes, err = from.nodes(ctx, about); err != nil {
		return verdict{}, nil, err
	}
	return kubeletServing(request, f), machines, nil
}
