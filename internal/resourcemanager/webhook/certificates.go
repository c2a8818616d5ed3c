package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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

	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// SecretName is the name of the Secret with the certificate and its CA.
const SecretName = "gardener-resource-manager-webhooks"

// Certificates keeps the certificate of the webhooks of a seed valid, and its CA in their MutatingWebhookConfiguration.
// Of several replicas only the leader writes; all serve the certificate in the Secret.
type Certificates struct {
	// Client is for the cluster whose API server calls the webhooks.
	Client client.Client
	// Reader reads from the same cluster without a cache.
	Reader client.Reader
	// Secrets reads from a cache that has only this Secret.
	Secrets client.Reader
	Clock   clock.PassiveClock
	// Namespace of the Secret, and of the Service through which the API server reaches the webhooks.
	Namespace string

	served served
}

// SecretCache limits a cache to the Secret.
func SecretCache(namespace string) cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Field:      fields.OneTermEqualSelector("metadata.name", SecretName),
	}
}

// AddToManager makes the manager's leader maintain the certificate. secrets is a cache with the limits of
// [SecretCache].
func (c *Certificates) AddToManager(mgr ctrl.Manager, secrets cache.Cache) error {
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: c.Namespace, Name: SecretName}}}
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("webhook-certificate").
		Watches(&admissionregistrationv1.MutatingWebhookConfiguration{}, handler.EnqueueRequestsFromMapFunc(one),
			builder.WithPredicates(named(configuration.Name))).
		WatchesRawSource(source.Kind(secrets, client.Object(&corev1.Secret{}), handler.EnqueueRequestsFromMapFunc(one))).
		Complete(c)
	if err != nil {
		return fmt.Errorf("create controller of the webhooks' certificate: %w", err)
	}
	return nil
}

// Reconcile implements [reconcile.Reconciler].
func (c *Certificates) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: SecretName}}
	if err := c.Reader.Get(ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret %s/%s: %w", c.Namespace, SecretName, err)
	}
	names := []string{configuration.ServiceName + "." + c.Namespace + ".svc"}
	data, due, err := next(secret.Data, names, c.Clock)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !maps.EqualFunc(secret.Data, data, func(a, b []byte) bool { return string(a) == string(b) }) {
		log.FromContext(ctx).Info("Issuing the certificate of the webhooks", "renewal", due)
		if err := c.write(ctx, secret, data); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := c.announce(ctx, data[keyCA]); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: due.Sub(c.Clock.Now())}, nil
}

// write fails if the Secret is no longer what was read.
func (c *Certificates) write(ctx context.Context, secret *corev1.Secret, data map[string][]byte) error {
	secret.Data, secret.Type = data, corev1.SecretTypeTLS
	var err error
	if secret.ResourceVersion == "" {
		err = c.Client.Create(ctx, secret)
	} else {
		err = c.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", c.Namespace, SecretName, err)
	}
	return nil
}

// announce puts the CA into each webhook of the configuration, which others keep otherwise.
func (c *Certificates) announce(ctx context.Context, ca []byte) error {
	live := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: configuration.Name}, live); apierrors.IsNotFound(err) {
		return nil // The watch reports it.
	} else if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration %s: %w", configuration.Name, err)
	}
	before := live.DeepCopy()
	for i := range live.Webhooks {
		live.Webhooks[i].ClientConfig.CABundle = ca
	}
	if equality.Semantic.DeepEqual(before.Webhooks, live.Webhooks) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, live, patch); err != nil {
		return fmt.Errorf("write CA into MutatingWebhookConfiguration %s: %w", configuration.Name, err)
	}
	return nil
}

// GetCertificate is the function of that name in a [tls.Config].
func (c *Certificates) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: SecretName}
	if err := c.Secrets.Get(hello.Context(), key, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return c.served.of(secret)
}

// named selects one object.
func named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == name })
}
