package gardenlet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/chart/oci"
	"hortus.dev/hortus/internal/garden/bootstraptoken"
	"hortus.dev/hortus/internal/gardenletchart"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/internal/reconnect"
)

const (
	fieldOwner = "hortus-controller-manager"

	// labelGardenlet is on the tokens that this controller creates. Its value is the name of the Gardenlet.
	labelGardenlet = "hortus.dev/gardenlet"
	// tokenValidity is how long a token can be used.
	tokenValidity = time.Hour

	// retryPeriod is the pause until the next attempt: Secrets, charts and clusters are not watched.
	retryPeriod = time.Minute
	// passLimit bounds one attempt, workers how many clusters that do not answer are waited for at the same time.
	passLimit = 2 * time.Minute
	workers   = 5
)

// Reconciler installs gardenlets.
type Reconciler struct {
	Garden client.Client // Direct writes.
	// Live decides: a cache may not have seen that the Seed is registered.
	Live   client.Reader
	Clock  clock.PassiveClock
	Charts interface {
		Pull(ctx context.Context, owner string, source oci.Source) (oci.Chart, error)
		Forget(owner string)
	}
	// CABundle returns the CA bundle of the garden, PEM.
	CABundle func() ([]byte, error)
	// NewToken returns a token for the gardenlet of a Seed, and the Secret with which the garden authenticates it.
	NewToken func(seed string, end time.Time) (token string, secret *corev1.Secret)
	// Connect returns the cluster of a kubeconfig.
	Connect func(kubeconfig []byte) (Cluster, error)
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	ofSeed := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, seed client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{
			Namespace: corev1beta1.GardenNamespace, Name: seed.GetName(),
		}}}
	})
	comesOrGoes := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("gardenlet").
		For(&seedmanagementv1alpha1.Gardenlet{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1beta1.Seed{}, ofSeed, builder.WithPredicates(comesOrGoes)).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter(), MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("create Gardenlet controller: %w", err)
	}
	return nil
}

// Reconcile installs a gardenlet if it is due. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	gardenlet := &seedmanagementv1alpha1.Gardenlet{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name},
	}
	found, err := kube.Exists(ctx, r.Live, gardenlet)
	if err != nil {
		return reconcile.Result{}, err
	}
	registered, err := kube.Exists(ctx, r.Live, &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: request.Name}})
	if err != nil {
		return reconcile.Result{}, err
	}
	if !found || gardenlet.Spec.KubeconfigSecretRef == nil {
		r.Charts.Forget(request.Name)
		return reconcile.Result{}, nil // Tokens expire.
	}
	if !due(gardenlet, registered) {
		r.Charts.Forget(request.Name)
		tokens, err := r.tokens(ctx, request.Name)
		if err != nil || len(tokens) == 0 {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: tokenValidity}, nil
	}
	joined, installErr := r.install(ctx, gardenlet)
	if !registered || !joined { // A gardenlet whose Seed is registered reports for itself.
		err = gardenletchart.Report(ctx, r.Garden, gardenlet, condition(gardenlet, installErr), r.Clock.Now())
	}
	if joined && forced(gardenlet) {
		err = errors.Join(err, r.done(ctx, gardenlet))
	}
	if errors.As(installErr, new(invalid)) {
		ctrl.LoggerFrom(ctx).V(1).Info("The gardenlet cannot be installed", "reason", installErr.Error())
		installErr = nil // The condition reports it.
	}
	if err := errors.Join(installErr, err); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: retryPeriod}, nil
}

// install applies the objects of the gardenlet to its cluster, and reports whether the gardenlet has a certificate.
func (r *Reconciler) install(
	ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet,
) (joined bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	cluster, err := r.cluster(ctx, gardenlet)
	if err != nil {
		return false, fmt.Errorf("spec.kubeconfigSecretRef: %w", err)
	}
	caBundle, err := r.CABundle()
	if err != nil {
		return false, err
	}
	garden, err := gardenOf(gardenlet, caBundle)
	if err != nil {
		return false, err
	}
	const path = "spec.deployment.helm.ociRepository"
	from, err := oci.SourceOf(ctx, r.Live, &gardenlet.Spec.Deployment.Helm.OCIRepository)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	pulled, err := r.Charts.Pull(ctx, gardenlet.Name, from)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	archive := pulled.Archive
	capabilities, err := cluster.Capabilities(ctx)
	if err != nil {
		return false, err
	}
	// No token is created for a chart that cannot be rendered.
	access := gardenletchart.Access{Value: gardenletchart.BootstrapKubeconfig, Text: "not known yet"}
	if _, err := gardenletchart.Render(archive, gardenlet, access, capabilities); err != nil {
		return false, invalid{err}
	}
	present, err := gardenletchart.AccessIn(ctx, cluster)
	if err != nil {
		return false, err
	}
	if joined, err = r.joined(ctx, gardenlet.Name, cluster, present); err != nil {
		return false, err
	}
	if access, err = r.access(ctx, gardenlet.Name, garden, present, joined); err != nil {
		return false, err
	}
	rendered, err := gardenletchart.Render(archive, gardenlet, access, capabilities)
	if err != nil {
		return false, invalid{err}
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: gardenletchart.Namespace, Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleGarden},
	}}}
	for _, o := range rendered {
		objects = append(objects, o)
	}
	for _, o := range objects {
		if err := kube.Apply(ctx, cluster, o, fieldOwner); err != nil {
			return false, err
		}
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Applied the objects of the gardenlet", "objects", len(objects))
	return joined, nil
}

// cluster connects to the one whose kubeconfig the Gardenlet names.
func (r *Reconciler) cluster(ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet) (Cluster, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenlet.Namespace, Name: gardenlet.Spec.KubeconfigSecretRef.Name,
	}}
	found, err := kube.Exists(ctx, r.Live, secret)
	if err != nil {
		return Cluster{}, err
	}
	key, kubeconfig := client.ObjectKeyFromObject(secret), secret.Data[gardenletchart.KeyKubeconfig]
	if !found {
		return Cluster{}, invalid{fmt.Errorf("the Secret %s does not exist", key)}
	}
	if len(kubeconfig) == 0 {
		return Cluster{}, invalid{fmt.Errorf("the Secret %s has no key %s", key, gardenletchart.KeyKubeconfig)}
	}
	cluster, err := r.Connect(kubeconfig)
	if err != nil {
		return Cluster{}, fmt.Errorf("Secret %s: %w", key, err)
	}
	return cluster, nil
}

// access returns how the gardenlet reaches the garden when it starts. One that has a certificate, or has requested it,
// keeps its present access, so that it does not restart.
func (r *Reconciler) access(
	ctx context.Context, seed string, garden pki.Kubeconfig, present gardenletchart.Access, joined bool,
) (gardenletchart.Access, error) {
	if joined && present.Text != "" {
		return present, nil
	}
	tokens, err := r.tokens(ctx, seed)
	if err != nil {
		return present, err
	}
	text, keep := tokenFor(seed, present.Text, tokens, r.Clock.Now())
	switch {
	case keep:
		return present, nil
	case text == "":
		if text, err = r.newToken(ctx, seed); err != nil {
			return present, err
		}
	}
	garden.Token = text
	kubeconfig, err := garden.Render()
	return gardenletchart.Access{
		Value: gardenletchart.BootstrapKubeconfig, Secret: gardenletchart.BootstrapSecret, Text: string(kubeconfig),
	}, err
}

// joined reports whether the cluster has a gardenlet of the Seed with a certificate: in its access, or in the Secret in
// which it keeps the newest. One there that has expired is deleted, since the gardenlet requests none while it has one.
func (r *Reconciler) joined(
	ctx context.Context, seed string, cluster Cluster, present gardenletchart.Access,
) (bool, error) {
	if of, usable := holder([]byte(present.Text), r.Clock.Now()); usable {
		return of == seed, refuseOther(of, seed)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenletchart.Namespace, Name: gardenletchart.CertificateSecret,
	}}
	found, err := kube.Exists(ctx, cluster, secret)
	if err != nil || !found {
		return false, err
	}
	of, usable := holder(secret.Data[gardenletchart.KeyKubeconfig], r.Clock.Now())
	if usable {
		return of == seed, refuseOther(of, seed)
	}
	ctrl.LoggerFrom(ctx).Info("Deleting a certificate that has expired, or cannot be read", "Secret", secret.Name)
	_, err = kube.Delete(ctx, cluster, secret)
	return false, err
}

func (r *Reconciler) newToken(ctx context.Context, name string) (string, error) {
	token, secret := r.NewToken(name, r.Clock.Now().Add(tokenValidity))
	secret.Labels = map[string]string{labelGardenlet: name}
	if err := r.Garden.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("create token for the gardenlet: %w", err)
	}
	return token, nil
}

// tokens are those that were created for a gardenlet and have not expired. Others are deleted.
func (r *Reconciler) tokens(ctx context.Context, name string) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	if err := r.Live.List(ctx, list, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{labelGardenlet: name}); err != nil {
		return nil, fmt.Errorf("list tokens of the gardenlet: %w", err)
	}
	var valid []corev1.Secret
	for i := range list.Items {
		if bootstraptoken.Valid(&list.Items[i], r.Clock.Now()) {
			valid = append(valid, list.Items[i])
		} else if _, err := kube.Delete(ctx, r.Garden, &list.Items[i]); err != nil {
			return nil, err
		}
	}
	return valid, nil
}

// done removes the request to install the gardenlet again.
func (r *Reconciler) done(ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet) error {
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"`+corev1beta1.AnnotationOperation+`":null}}}`))
	if err := r.Garden.Patch(ctx, gardenlet, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove operation from Gardenlet %q: %w", gardenlet.Name, err)
	}
	return nil
}
