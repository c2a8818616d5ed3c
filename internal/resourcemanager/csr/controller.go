package csr

import (
	"context"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// reason is that of the conditions on requests.
const reason = "HortusResourceManager"

var machineGVK = schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"}

// Reconciler approves or denies requests. It reads nodes and machines directly: requests are rare, and a decision on a
// stale cache would be wrong for good.
type Reconciler struct {
	Target       client.Client // Cached reads of requests, direct writes.
	TargetReader client.Reader // Direct.
	Source       client.Reader // Direct.
	Namespace    string        // Of the machines in the source cluster.
	Clock        clock.PassiveClock
}

// AddToManager registers the controller for the target cluster's cache.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	requests := source.Kind(target, &certificatesv1.CertificateSigningRequest{},
		&handler.TypedEnqueueRequestForObject[*certificatesv1.CertificateSigningRequest]{}, predicate.NewTypedPredicateFuncs(ours))
	if err := ctrl.NewControllerManagedBy(mgr).Named("csr-approver").WatchesRawSource(requests).Complete(r); err != nil {
		return fmt.Errorf("create CSR approver: %w", err)
	}
	return nil
}

// Reconcile decides about one request.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := r.Target.Get(ctx, req.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !ours(request) {
		return reconcile.Result{}, nil
	}
	d, message, err := r.decide(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	kind := certificatesv1.CertificateApproved
	if d == deny {
		kind = certificatesv1.CertificateDenied
	}
	now := metav1.NewTime(r.Clock.Now())
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now})
	ctrl.LoggerFrom(ctx).Info("Decided", "decision", kind, "requester", request.Spec.Username, "reason", message)
	err = r.Target.SubResource("approval").Update(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // The newer request is on its way.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("update approval: %w", err)
	}
	return reconcile.Result{}, nil
}

func (r *Reconciler) decide(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (decision, string, error) {
	if request.Spec.SignerName != certificatesv1.KubeletServingSignerName {
		m, err := r.machine(ctx, agentMachine(request))
		if err != nil {
			return ignore, "", err
		}
		d, message := nodeAgent(request, m)
		return d, message, nil
	}
	name, isNode := strings.CutPrefix(request.Spec.Username, nodeUserPrefix)
	if !isNode || name == "" {
		d, message := kubeletServing(request, nil, nil)
		return d, message, nil
	}
	node := &corev1.Node{}
	if err := r.TargetReader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if !apierrors.IsNotFound(err) {
			return ignore, "", fmt.Errorf("read node: %w", err)
		}
		node = nil
	}
	list := machineList()
	if err := r.Source.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{LabelNode: name}); err != nil {
		return ignore, "", fmt.Errorf("list machines: %w", err)
	}
	var machines []machine
	for _, m := range list.Items {
		machines = append(machines, machine{m.Name, name})
	}
	d, message := kubeletServing(request, node, machines)
	return d, message, nil
}

// machine returns the machine of a name, nil if there is none.
func (r *Reconciler) machine(ctx context.Context, name string) (*machine, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(machineGVK)
	if name == "" {
		return nil, nil
	}
	if err := r.Source.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, m); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read machine %q: %w", name, err)
	}
	return &machine{m.Name, m.Labels[LabelNode]}, nil
}

func machineList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(machineGVK.GroupVersion().WithKind(machineGVK.Kind + "List"))
	return list
}
