// Package token keeps ServiceAccount tokens of the target cluster in Secrets of the source cluster, so that components
// in a control plane namespace need no permanent credentials. Resource-managers run it for Shoots; gardenlets run it
// for the garden, for extensions in their seed.
package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	defaultLifetime = 12 * time.Hour
	// maxCounted bounds the lifetime that the renewal is computed from: the API server may issue tokens for longer than
	// requested, but keys may be rotated within a day.
	maxCounted = 24 * time.Hour
	// renewAt is the part of the lifetime after which a token is renewed; renewJitter spreads the renewals.
	renewAt     = 0.8
	renewJitter = 0.05

	// checkPeriod is how often confined ServiceAccounts are checked, which are not watched, with one request for each
	// Secret; and CA certificates, which may be in a file.
	checkPeriod = time.Hour

	// concurrentSyncs is the number of tokens requested at once; a control plane has about ten.
	concurrentSyncs = 5

	annotationTargetName      = "token-requestor.resources.gardener.cloud/target-secret-name"
	annotationTargetNamespace = "token-requestor.resources.gardener.cloud/target-secret-namespace"
	// annotationAccountUID is the UID of the confined ServiceAccount that the token is for. Tokens are invalid if the
	// ServiceAccount is deleted, also if another one with the same name replaces it.
	annotationAccountUID = "hortus.dev/serviceaccount-uid"

	// fieldOwner of the ServiceAccounts.
	fieldOwner = "token-requestor"
)

// Confinement limits the ServiceAccounts that Secrets may name, and the lifetime of tokens to 12 h.
type Confinement struct {
	// Namespace has all ServiceAccounts, whatever namespace a Secret names.
	Namespace string
	// Labels returns labels of the ServiceAccount that a Secret names, which override those in the Secret's annotation;
	// an error if the Secret may not have its tokens.
	Labels func(ctx context.Context, secret *corev1.Secret) (map[string]string, error)
	// Events are for the authors of Secrets, who do not read the log: they say why a Secret gets no token.
	Events events.EventRecorder

	refusals refusals
}

// Reconciler keeps tokens in the Secrets that request one.
type Reconciler struct {
	Source client.Client // Cached reads of the Secrets with the label, direct writes.
	Target client.Client // Direct.
	Clock  clock.PassiveClock
	Jitter func() float64 // In [0,1); nil is random.
	Class  string
	// CABundle returns the CA certificates of the target's API server, PEM, for Secrets that request them; empty if those
	// of the system apply.
	CABundle func() ([]byte, error)
	// Confined is set if those who write the Secrets may not use all ServiceAccounts of the target. Then no Secret is
	// written to the target.
	Confined *Confinement
}

// AddToManager registers the controller for a cache of the Secrets with the label. They have a separate cache, because
// only the metadata is kept of all other Secrets.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, secrets cache.Cache) error {
	requested := source.Kind(secrets, &corev1.Secret{}, &handler.TypedEnqueueRequestForObject[*corev1.Secret]{},
		predicate.NewTypedPredicateFuncs(func(s *corev1.Secret) bool { return responsible(s, r.Class) }))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("token-requestor").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrentSyncs, RateLimiter: reconnect.RateLimiter(),
		}).
		WatchesRawSource(requested).
		Complete(reconcile.AsReconciler(r.Source, r))
	if err != nil {
		return fmt.Errorf("create token requestor: %w", err)
	}
	return nil
}

// responsible reports whether a Secret requests a token from the resource-manager of the class.
func responsible(o client.Object, class string) bool {
	l := o.GetLabels()
	wanted := l[resourcesv1alpha1.LabelClass]
	// The class of Shoots may be spelt out.
	return l[resourcesv1alpha1.LabelPurpose] == resourcesv1alpha1.PurposeTokenRequestor &&
		(wanted == class || class == "" && wanted == "shoot")
}

// Reconcile renews the token of one Secret when it is due. The ServiceAccount is not deleted with the Secret: that
// would require a finalizer, which would block the deletion of the Secret's namespace while this process does not run.
func (r *Reconciler) Reconcile(ctx context.Context, secret *corev1.Secret) (reconcile.Result, error) {
	if secret.DeletionTimestamp != nil || !responsible(secret, r.Class) {
		return reconcile.Result{}, nil
	}
	result, err := r.renew(ctx, secret)
	if r.Confined != nil && errors.Is(err, reconcile.TerminalError(nil)) {
		r.Confined.refuse(ctx, secret, err, r.Clock.Now())
		return reconcile.Result{RequeueAfter: checkPeriod}, nil
	}
	return result, err
}

func (r *Reconciler) renew(ctx context.Context, secret *corev1.Secret) (reconcile.Result, error) {
	now := r.Clock.Now()
	inTarget, err := r.targetSecret(ctx, secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	bundle, err := r.bundle(secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	wait := untilRenewal(secret, inTarget, bundle, now)
	if wait > 0 && r.Confined == nil {
		return reconcile.Result{RequeueAfter: r.nextCheck(secret, wait)}, nil
	}
	account, err := r.ensureAccount(ctx, secret)
	if err != nil {
		return reconcile.Result{}, err
	}
	if wait > 0 && secret.Annotations[annotationAccountUID] == string(account.UID) {
		return reconcile.Result{RequeueAfter: r.nextCheck(secret, wait)}, nil
	}
	token, expires, err := r.request(ctx, secret, account)
	if err != nil {
		return reconcile.Result{}, err
	}
	wait = renewalAfter(expires.Sub(now), r.jitter())
	content := credentials{token, bundle}
	if err := r.store(ctx, secret, account, content, now.Add(wait)); err != nil {
		return reconcile.Result{}, err
	}
	ctrl.LoggerFrom(ctx).Info("Renewed token", "ServiceAccount", client.ObjectKeyFromObject(account), "renewAfter",
		wait.String())
	return reconcile.Result{RequeueAfter: r.nextCheck(secret, wait)}, nil
}

// nextCheck is when to look at a Secret again whose token is renewed after wait.
func (r *Reconciler) nextCheck(secret *corev1.Secret, wait time.Duration) time.Duration {
	if r.Confined != nil || wantsBundle(secret) {
		return min(wait, checkPeriod)
	}
	return wait
}

func (r *Reconciler) jitter() float64 {
	if r.Jitter != nil {
		return r.Jitter()
	}
	return rand.Float64()
}

// untilRenewal is how long the present token is to be used; zero or less if there is none or it is due, or the CA
// certificates have to be replaced. inTarget is the Secret that holds the token in the target cluster, nil if it stays
// here.
func untilRenewal(secret, inTarget *corev1.Secret, bundle []byte, now time.Time) time.Duration {
	holder := secret
	if inTarget != nil {
		holder = inTarget
	}
	if !hasToken(holder) || !hasBundle(holder, bundle) {
		return 0
	}
	at, err := time.Parse(time.RFC3339, secret.Annotations[resourcesv1alpha1.AnnotationTokenRenewTimestamp])
	if err != nil {
		return 0
	}
	return at.Sub(now)
}

// renewalAfter is the time of use of a token with the given lifetime.
func renewalAfter(lifetime time.Duration, jitter float64) time.Duration {
	d := time.Duration(float64(min(lifetime, maxCounted)) * renewAt)
	return d - time.Duration(jitter*renewJitter*float64(d))
}

// ensureAccount makes the ServiceAccount that the Secret names.
func (r *Reconciler) ensureAccount(ctx context.Context, secret *corev1.Secret) (*corev1.ServiceAccount, error) {
	a := secret.Annotations
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name:      a[resourcesv1alpha1.AnnotationServiceAccountName],
		Namespace: a[resourcesv1alpha1.AnnotationServiceAccountNamespace]}}
	if c := r.Confined; c != nil {
		account.Namespace = c.Namespace
	}
	if account.Name == "" || account.Namespace == "" {
		return nil, reconcile.TerminalError(errors.New("the Secret names no ServiceAccount"))
	}
	var labels map[string]string
	if text := a[resourcesv1alpha1.AnnotationServiceAccountLabels]; text != "" {
		if err := json.Unmarshal([]byte(text), &labels); err != nil {
			return nil, reconcile.TerminalError(fmt.Errorf("read labels of the ServiceAccount: %w", err))
		}
	}
	if r.Confined != nil {
		required, err := r.Confined.Labels(ctx, secret)
		if err != nil {
			return nil, err
		}
		return account, r.applyConfined(ctx, account, labels, required)
	}
	_, err := controllerutil.CreateOrPatch(ctx, r.Target, account, func() error {
		account.AutomountServiceAccountToken = ptr.To(false)
		for key, value := range labels {
			metav1.SetMetaDataLabel(&account.ObjectMeta, key, value)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("apply ServiceAccount %s: %w", client.ObjectKeyFromObject(account), err)
	}
	return account, nil
}

// applyConfined creates or updates a ServiceAccount with a request that has its name: authorizers see the names of
// objects that are created only in such requests.
func (r *Reconciler) applyConfined(
	ctx context.Context, account *corev1.ServiceAccount, labels, required map[string]string,
) error {
	account.AutomountServiceAccountToken = ptr.To(false)
	account.Labels = map[string]string{}
	maps.Copy(account.Labels, labels)
	maps.Copy(account.Labels, required)
	return kube.Apply(ctx, r.Target, account, fieldOwner)
}

func (r *Reconciler) request(
	ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount,
) (string, time.Time, error) {
	lifetime := defaultLifetime
	if text := secret.Annotations[resourcesv1alpha1.AnnotationTokenExpirationDuration]; text != "" {
		var err error
		if lifetime, err = time.ParseDuration(text); err != nil {
			return "", time.Time{}, reconcile.TerminalError(fmt.Errorf("read lifetime: %w", err))
		}
	}
	if r.Confined != nil {
		lifetime = min(lifetime, defaultLifetime)
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime / time.Second))},
	}
	if err := r.Target.SubResource("token").Create(ctx, account, request); err != nil {
		return "", time.Time{}, fmt.Errorf("request token for ServiceAccount %s: %w", client.ObjectKeyFromObject(account),
			err)
	}
	return request.Status.Token, request.Status.ExpirationTimestamp.Time, nil
}

// targetSecret returns the Secret in the target cluster for the token, nil if none is requested.
func (r *Reconciler) targetSecret(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	name, namespace := secret.Annotations[annotationTargetName], secret.Annotations[annotationTargetNamespace]
	if name == "" || namespace == "" || r.Confined != nil {
		return nil, nil
	}
	out := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	if err := r.Target.Get(ctx, client.ObjectKeyFromObject(out), out); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s/%s of the target: %w", namespace, name, err)
	}
	return out, nil
}

// store writes the token where it is wanted and then when to renew it, so that a stop in between renews it again.
func (r *Reconciler) store(
	ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount, content credentials, renew time.Time,
) error {
	before := secret.DeepCopy()
	target, err := r.targetSecret(ctx, secret)
	if err != nil {
		return err
	}
	if target != nil {
		_, err := controllerutil.CreateOrPatch(ctx, r.Target, target,
			func() error { return content.write(target, secret.Data[dataKubeconfig]) })
		if err != nil {
			return fmt.Errorf("apply Secret %s of the target: %w", client.ObjectKeyFromObject(target), err)
		}
		delete(secret.Data, dataToken)
	} else if err := content.write(secret, secret.Data[dataKubeconfig]); err != nil {
		return reconcile.TerminalError(err)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, resourcesv1alpha1.AnnotationTokenRenewTimestamp,
		renew.UTC().Format(time.RFC3339))
	if r.Confined != nil {
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationAccountUID, string(account.UID))
	}
	if err := r.Source.Patch(ctx, secret,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch Secret: %w", err)
	}
	return nil
}
