package csr

import (
	"context"
	"fmt"
	"strings"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/machineaccess"
)

// reason is that of the conditions on requests.
const reason = "HortusResourceManager"

// retry is the time until a request is looked at again that waits for the machine controller, which has just made the machine.
const retry = time.Second

// Reconciler approves or denies requests. It reads nodes and machines directly: requests are rare, and a decision on a
// stale cache would be wrong for good.
type Reconciler struct {
	Target       client.Client // Cached reads of requests, direct writes.
	TargetReader client.Reader // Direct.
	Source       client.Reader // Direct.
	Namespace    string        // Of the machines in the source cluster.
	// Grants gives a machine its rights, before it gets a certificate to use them with.
	Grants machineaccess.Grants
	Clock  clock.PassiveClock
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
	if d == later {
		ctrl.LoggerFrom(ctx).V(1).Info("Waiting", "requester", request.Spec.Username, "reason", message)
		return reconcile.Result{RequeueAfter: retry}, nil
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
	switch request.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName:
		return r.decideServing(ctx, request)
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return r.decideKubelet(ctx, request)
	}
	return r.decideAgent(ctx, request)
}

func (r *Reconciler) decideServing(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (decision, string, error) {
	name, isNode := strings.CutPrefix(request.Spec.Username, nodeUserPrefix)
	if !isNode || name == "" {
		d, message := kubeletServing(request, nil, nil)
		return d, message, nil
	}
	node, err := r.node(ctx, name)
	if err != nil {
		return ignore, "", err
	}
	machines, err := r.machines(ctx, client.MatchingLabels{machinev1alpha1.NodeLabelKey: name})
	if err != nil {
		return ignore, "", err
	}
	d, message := kubeletServing(request, node, namesOf(machines))
	return d, message, nil
}

func (r *Reconciler) decideKubelet(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (decision, string, error) {
	name := named(request, nodeUserPrefix)
	node, err := r.node(ctx, name)
	if err != nil {
		return ignore, "", err
	}
	having, err := r.machines(ctx, client.MatchingLabels{machinev1alpha1.NodeLabelKey: name})
	if err != nil {
		return ignore, "", err
	}
	var undecided []machinev1alpha1.Machine
	if len(having) == 0 {
		without, err := labels.NewRequirement(machinev1alpha1.NodeLabelKey, selection.DoesNotExist, nil)
		if err != nil {
			return ignore, "", fmt.Errorf("select machines without a node: %w", err)
		}
		if undecided, err = r.machines(ctx, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*without)}); err != nil {
			return ignore, "", err
		}
	}
	m, d, message := kubeletClient(request, candidates{namesOf(having), namesOf(undecided)}, node != nil)
	return r.granted(ctx, having, m.name, d, message)
}

func (r *Reconciler) decideAgent(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (decision, string, error) {
	name := named(request, corev1beta1.NodeAgentUserPrefix)
	found := &machinev1alpha1.Machine{}
	err := r.Source.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, found)
	if name == "" || apierrors.IsNotFound(err) {
		d, message := nodeAgent(request, nil, false)
		return d, message, nil
	}
	if err != nil {
		return ignore, "", fmt.Errorf("read machine %q: %w", name, err)
	}
	m := machineOf(found)
	node, err := r.node(ctx, m.node)
	if err != nil {
		return ignore, "", err
	}
	d, message := nodeAgent(request, &m, node != nil)
	return r.granted(ctx, []machinev1alpha1.Machine{*found}, name, d, message)
}

// granted gives a machine its rights if it gets a certificate.
func (r *Reconciler) granted(
	ctx context.Context, machines []machinev1alpha1.Machine, name string, d decision, message string,
) (decision, string, error) {
	for i := range machines {
		if d == approve && machines[i].Name == name {
			if err := r.Grants.Ensure(ctx, machineaccess.Of(&machines[i])); err != nil {
				return ignore, "", err
			}
		}
	}
	return d, message, nil
}

// node returns the Node of a name, nil if there is none.
func (r *Reconciler) node(ctx context.Context, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	if err := r.TargetReader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read node %q: %w", name, err)
	}
	return node, nil
}

func (r *Reconciler) machines(ctx context.Context, which client.ListOption) ([]machinev1alpha1.Machine, error) {
	list := &machinev1alpha1.MachineList{}
	if err := r.Source.List(ctx, list, client.InNamespace(r.Namespace), which); err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return list.Items, nil
}

func namesOf(list []machinev1alpha1.Machine) []machine {
	var out []machine
	for i := range list {
		out = append(out, machineOf(&list[i]))
	}
	return out
}

func machineOf(m *machinev1alpha1.Machine) machine {
	return machine{m.Name, m.Labels[machinev1alpha1.NodeLabelKey]}
}
