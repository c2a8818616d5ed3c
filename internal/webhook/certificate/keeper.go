package certificate

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Keeper keeps the certificate of the webhooks of a process valid, and its CA in their MutatingWebhookConfiguration. Of
// several replicas only the leader writes; all serve the certificate in the Secret.
type Keeper struct {
	// Client is for the cluster whose API server calls the webhooks.
	Client client.Client
	// Reader reads from the same cluster without a cache.
	Reader client.Reader
	// Secrets reads from a cache that has only the Secret.
	Secrets client.Reader
	Clock   clock.PassiveClock
	// Namespace of the Secret, and of the Service through which the API server reaches the webhooks.
	Namespace string
	// Secret is the name of the Secret with the certificate and its CA, and the common name of the CA.
	Secret string
	// Service is the name of the Service.
	Service string
	// Configuration is the name of the MutatingWebhookConfiguration, which others make: so it goes with the program that
	// has the webhooks, also when an earlier version without them replaces it.
	Configuration string

	served served
}

// SetupWithManager makes the manager's leader maintain the certificate, and the manager's clients those of the keeper.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error {
	secrets, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{k.Namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", k.Secret),
		}},
	})
	if err != nil {
		return fmt.Errorf("create cache of the webhooks' Secret: %w", err)
	}
	if err := mgr.Add(onEveryReplica{secrets}); err != nil {
		return fmt.Errorf("add cache of the webhooks' Secret: %w", err)
	}
	k.Client, k.Reader, k.Secrets = mgr.GetClient(), mgr.GetAPIReader(), secrets
	return k.AddToManager(mgr, secrets)
}

// onEveryReplica is a cache that managers start with their own caches. They would start another one only on the leader,
// and webhooks are served by every replica.
type onEveryReplica struct{ cache.Cache }

// GetCache returns the cache; managers recognize by this method what has one.
func (c onEveryReplica) GetCache() cache.Cache { return c.Cache }

// AddToManager makes the manager's leader maintain the certificate, of which secrets is a cache.
func (k *Keeper) AddToManager(mgr ctrl.Manager, secrets cache.Cache) error {
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: k.Namespace, Name: k.Secret}}}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("webhook-certificate").
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(one),
			builder.WithPredicates(named(k.Configuration))).
		WatchesRawSource(source.Kind(secrets, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(one))).
		// At the start there may be neither of the two.
		WatchesRawSource(source.Func(func(
			ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
		) error {
			queue.Add(one(ctx, nil)[0])
			return nil
		})).
		Complete(k)
	if err != nil {
		return fmt.Errorf("create controller of the webhooks' certificate: %w", err)
	}
	return nil
}

// Reconcile implements [reconcile.Reconciler].
func (k *Keeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Secret}}
	if err := k.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret %s/%s: %w", k.Namespace, k.Secret, err)
	}
	names := []string{k.Service + "." + k.Namespace + ".svc"}
	data, due, err := next(secret.Data, k.Secret, names, k.Clock)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !maps.EqualFunc(secret.Data, data, func(a, b []byte) bool { return string(a) == string(b) }) {
		log.FromContext(ctx).Info("Issuing the certificate of the webhooks", "renewal", due)
		if err := k.write(ctx, secret, data); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := k.announce(ctx, data[keyCA]); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: due.Sub(k.Clock.Now())}, nil
}

// write fails if the Secret is no longer what was read.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, data map[string][]byte) error {
	secret.Data, secret.Type = data, corev1.SecretTypeTLS
	var err error
	if secret.ResourceVersion == "" {
		err = k.Client.Create(ctx, secret)
	} else {
		err = k.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", k.Namespace, k.Secret, err)
	}
	return nil
}

// announce makes the CA known to the API server.
func (k *Keeper) announce(ctx context.Context, ca []byte) error {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Configuration}, live); apierrors.IsNotFound(err) {
		return nil // The watch reports it.
	} else if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	before := live.DeepCopy()
	for i := range live.Webhooks {
		live.Webhooks[i].ClientConfig.CABundle = ca
	}
	if equality.Semantic.DeepEqual(before.Webhooks, live.Webhooks) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := k.Client.Patch(ctx, live, patch); err != nil {
		return fmt.Errorf("write CA into MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	return nil
}

// Announced is a [healthz.Checker] that fails until the API server knows the webhooks and their CA, since until then it
// does not call them.
func (k *Keeper) Announced(request *http.Request) error {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := k.Client.Get(request.Context(), client.ObjectKey{Name: k.Configuration}, live); err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", k.Configuration, err)
	}
	for _, w := range live.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			return fmt.Errorf("webhook %s of MutatingWebhookConfiguration %s has no CA", w.Name, k.Configuration)
		}
	}
	return nil
}

// GetCertificate is the function of that name in a [tls.Config].
func (k *Keeper) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: k.Namespace, Name: k.Secret}
	if err := k.Secrets.Get(hello.Context(), key, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return k.served.of(secret)
}

// named selects one object.
func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name })
}
