package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/pki"
)

// answerPeriod is the interval at which an open request is read. The answer takes about a second; a watch could only
// begin after the seed authorizer has seen the request.
const answerPeriod = time.Second

// Reconciler renews the certificate of one Access. Every replica runs one: replicas on standby must reach the garden,
// too.
type Reconciler struct {
	Access *Access
	Garden client.Client // Direct reads and writes.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Chance returns a random number that is at least 0 and less than 1.
	Chance   func() float64
	SeedName string
	Window   Window
	// Validity is the lifetime to request; nil leaves it to the signer, which also limits it.
	Validity *time.Duration

	issuer  *Issuer   // With the open request; nil without one.
	renewAt time.Time // Zero until the certificate in use has been checked.
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("garden-certificate").
		For(&corev1beta1.Seed{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
	if err != nil {
		return fmt.Errorf("create controller of the gardenlet's certificate: %w", err)
	}
	return nil
}

// Reconcile makes one step of a renewal that is due.
func (r *Reconciler) Reconcile(ctx context.Context, seed *corev1beta1.Seed) (reconcile.Result, error) {
	if seed.Name != r.SeedName {
		return reconcile.Result{}, nil
	}
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(seed), seed); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	requested := seed.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRenewKubeconfig
	if why := renewable(r.Access.used.Load(), r.SeedName); why != "" {
		if !requested {
			return reconcile.Result{}, nil
		}
		r.Events.Eventf(seed, nil, corev1.EventTypeWarning, "CertificateNotRenewed", "Renew", "%s", why)
		return reconcile.Result{}, r.done(ctx, seed)
	}
	if r.renewAt.IsZero() {
		r.renewAt = renewAt(r.Access.used.Load(), r.Window, r.Chance())
	}
	if rest := r.renewAt.Sub(r.Clock.Now()); !requested && rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, nil
	}
	renewed, err := r.renew(ctx)
	if err != nil {
		r.Events.Eventf(seed, nil, corev1.EventTypeWarning, "CertificateNotRenewed", "Renew", "%v", err)
		return reconcile.Result{}, err
	}
	if !renewed {
		return reconcile.Result{RequeueAfter: answerPeriod}, nil
	}
	ctrl.LoggerFrom(ctx).Info("Renewed certificate for the garden", "notAfter", r.Access.used.Load().NotAfter, "renewAt",
		r.renewAt)
	r.Events.Eventf(seed, nil, corev1.EventTypeNormal, "CertificateRenewed", "Renew",
		"The gardenlet's certificate for the garden is valid until %s", r.Access.NotAfter().UTC().Format(time.RFC3339))
	if requested {
		if err := r.done(ctx, seed); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: max(r.renewAt.Sub(r.Clock.Now()), answerPeriod)}, nil
}

// renew reports whether another certificate is in use. False means to wait for the garden.
func (r *Reconciler) renew(ctx context.Context) (bool, error) {
	stored, cert, err := r.Access.stored(ctx)
	if err != nil {
		return false, err
	}
	if cert != nil && newer(cert, r.Access.used.Load(), r.Clock.Now()) { // Another replica, or an operator, was first.
		return true, r.use(*stored)
	}
	if r.issuer == nil {
		r.issuer = &Issuer{Garden: r.Garden, Clock: r.Clock}
	}
	pair, err := r.issuer.Certificate(ctx, r.SeedName, r.Validity)
	if err != nil || pair == nil {
		return false, err
	}
	if err := r.Access.store(ctx, *pair); err != nil {
		return false, err
	}
	return true, r.use(*pair)
}

// use has a certificate be used from now on.
func (r *Reconciler) use(pair pki.KeyPair) error {
	cert, err := pki.ParseCert(pair.CertPEM)
	if err != nil {
		return fmt.Errorf("read new certificate: %w", err)
	}
	if !sameUser(cert, r.Access.used.Load()) {
		return errors.New("the new certificate is for another user")
	}
	if err := r.Access.transport.Use(pair); err != nil {
		return err
	}
	r.Access.used.Store(cert)
	r.issuer = nil
	r.renewAt = renewAt(cert, r.Window, r.Chance())
	return nil
}

// done removes the request to renew from the Seed, so that there can be another one.
func (r *Reconciler) done(ctx context.Context, seed *corev1beta1.Seed) error {
	before := seed.DeepCopy()
	delete(seed.Annotations, corev1beta1.AnnotationOperation)
	if err := r.Garden.Patch(ctx, seed,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove operation from Seed %q: %w", seed.Name, err)
	}
	return nil
}
