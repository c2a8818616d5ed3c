package csr

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/csr"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
)

// reason is the reason of the conditions on requests.
const reason = "HortusControllerManager"

// Reconciler approves or denies requests.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	// Direct reads Seeds, ManagedSeeds, Shoots and tokens from the API server: a wrong decision, based on a stale cache,
	// would be final.
	Direct client.Reader
	Clock  clock.PassiveClock
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("csr-approver").
		For(&certificatesv1.CertificateSigningRequest{},
			builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
				request, ok := o.(*certificatesv1.CertificateSigningRequest)
				return ok && ours(request)
			}))).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create CSR approver: %w", err)
	}
	return nil
}

// Reconcile decides about one request.
func (r *Reconciler) Reconcile(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (reconcile.Result, error) {
	if !ours(request) {
		return reconcile.Result{}, nil
	}
	by, token, err := r.requester(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	approved, message := decide(request, by)
	if approved && token != nil {
		// Before the approval, so that the token cannot be used for a second certificate.
		if err := r.Garden.Update(ctx, token); err != nil {
			return reconcile.Result{}, fmt.Errorf("mark token in Secret %s as used: %w", client.ObjectKeyFromObject(token), err)
		}
	}
	d := csr.Decision{Approved: approved, Reason: reason, Message: message}
	return reconcile.Result{}, csr.Write(ctx, r.Garden, request, d, r.Clock.Now())
}

// requester returns the gardenlet that made a request, and the Secret of the bootstrap token it used, marked as used;
// nil if the gardenlet used a certificate.
func (r *Reconciler) requester(
	ctx context.Context, request *certificatesv1.CertificateSigningRequest,
) (requester, *corev1.Secret, error) {
	key, joins := bootstraptoken.SecretOf(request.Spec.Username, request.Spec.Groups)
	if !joins {
		by := requester{seed: seedOf(request)}
		err := r.Direct.Get(ctx, client.ObjectKey{Name: by.seed}, &corev1beta1.Seed{})
		if client.IgnoreNotFound(err) != nil {
			return requester{}, nil, fmt.Errorf("read Seed %q: %w", by.seed, err)
		}
		if err != nil {
			by.problem = "the Seed does not exist"
		}
		by.installs, err = r.installs(ctx, by.seed, wanted(request))
		return by, nil, err
	}
	token := &corev1.Secret{}
	if err := r.Direct.Get(ctx, key, token); apierrors.IsNotFound(err) {
		return requester{joins: true, problem: "the token does not exist any more"}, nil, nil
	} else if err != nil {
		return requester{}, nil, fmt.Errorf("read token: %w", err)
	}
	by := requester{seed: token.Annotations[bootstraptoken.AnnotationSeed], joins: true}
	by.problem = bootstraptoken.Claim(token, request.Name, r.Clock.Now())
	return by, token, nil
}

// installs returns the name of a ManagedSeed whose gardenlet the gardenlet of the given Seed installs: the Seed has the
// control plane of its Shoot. Otherwise it returns an empty string.
func (r *Reconciler) installs(ctx context.Context, seed, name string) (string, error) {
	if name == "" || name == seed {
		return "", nil
	}
	managed := &seedmanagementv1alpha1.ManagedSeed{}
	err := r.Direct.Get(ctx, client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: name}, managed)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read ManagedSeed %q: %w", name, err)
	}
	if err != nil || managed.DeletionTimestamp != nil || managed.Spec.Shoot == nil {
		return "", nil
	}
	shoot := &corev1beta1.Shoot{}
	key := client.ObjectKey{Namespace: managed.Namespace, Name: managed.Spec.Shoot.Name}
	if err := r.Direct.Get(ctx, key, shoot); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read Shoot %q: %w", key.Name, err)
	}
	if ptr.Deref(shoot.Status.SeedName, ptr.Deref(shoot.Spec.SeedName, "")) != seed {
		return "", nil
	}
	return name, nil
}
