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
	// tokenValidity is how long a token can be used; one that can be used for less than tokenReserve is replaced.
	tokenValidity = time.Hour
	tokenReserve  = 10 * time.Minute

	// joinedSecret is where a gardenlet keeps its certificate for the garden.
	joinedSecret = "gardenlet-kubeconfig"

	// retryPeriod is the pause until the next attempt: Secrets, charts and clusters are not watched.
	retryPeriod = time.Minute
)

// Reconciler installs gardenlets.
type Reconciler struct {
	Garden client.Client // Direct writes.
	// Live decides: a cache may not have seen that the Seed is registered.
	Live   client.Reader
	Clock  clock.PassiveClock
	Charts interface {
		Pull(ctx context.Context, owner string, source oci.Source) ([]byte, error)
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
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
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
		return reconcile.Result{}, r.deleteTokens(ctx, request.Name)
	}
	installErr := r.install(ctx, gardenlet)
	if installErr != nil || !registered { // A gardenlet whose Seed is registered reports for itself.
		err = r.report(ctx, gardenlet, condition(gardenlet, installErr))
	}
	if installErr == nil && forced(gardenlet) {
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

// install applies the objects of the gardenlet to its cluster.
func (r *Reconciler) install(ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet) error {
	cluster, err := r.cluster(ctx, gardenlet)
	if err != nil {
		return fmt.Errorf("spec.kubeconfigSecretRef: %w", err)
	}
	caBundle, err := r.CABundle()
	if err != nil {
		return err
	}
	garden, err := gardenOf(gardenlet, caBundle)
	if err != nil {
		return err
	}
	const path = "spec.deployment.helm.ociRepository"
	from, err := oci.SourceOf(ctx, r.Live, &gardenlet.Spec.Deployment.Helm.OCIRepository)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	archive, err := r.Charts.Pull(ctx, gardenlet.Name, from)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	capabilities, err := cluster.Capabilities(ctx)
	if err != nil {
		return err
	}
	access := gardenletchart.Access{Value: gardenletchart.BootstrapKubeconfig, Text: "not known yet"}
	// No token is created for a chart that cannot be rendered.
	if _, err := gardenletchart.Render(archive, gardenlet, access, capabilities); err != nil {
		return invalid{err}
	}
	if access.Text, err = r.access(ctx, gardenlet, cluster, garden); err != nil {
		return err
	}
	rendered, err := gardenletchart.Render(archive, gardenlet, access, capabilities)
	if err != nil {
		return invalid{err}
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: gardenletchart.Namespace, Labels: map[string]string{corev1beta1.LabelRole: corev1beta1.RoleGarden},
	}}}
	for _, o := range rendered {
		objects = append(objects, o)
	}
	for _, o := range objects {
		if err := kube.Apply(ctx, cluster, o, fieldOwner); err != nil {
			return err
		}
	}
	ctrl.LoggerFrom(ctx).Info("Installed gardenlet", "objects", len(objects))
	return nil
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

// access returns the kubeconfig with which the gardenlet requests its first certificate. One that has a certificate
// keeps the kubeconfig, so that it does not restart.
func (r *Reconciler) access(
	ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet, cluster Cluster, garden pki.Kubeconfig,
) (string, error) {
	joined, err := kube.Exists(ctx, cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: gardenletchart.Namespace, Name: joinedSecret,
	}})
	if err != nil {
		return "", err
	}
	if joined {
		first := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: gardenletchart.Namespace, Name: gardenletchart.BootstrapSecret,
		}}
		if _, err := kube.Exists(ctx, cluster, first); err != nil {
			return "", err
		}
		if text := first.Data[gardenletchart.KeyKubeconfig]; len(text) > 0 {
			return string(text), nil
		}
	}
	if garden.Token, err = r.token(ctx, gardenlet.Name); err != nil {
		return "", err
	}
	text, err := garden.Render()
	return string(text), err
}

// token returns a token for the first certificate of a gardenlet, which can be used for a while.
func (r *Reconciler) token(ctx context.Context, name string) (string, error) {
	now := r.Clock.Now()
	secrets, err := r.tokens(ctx, name)
	if err != nil {
		return "", err
	}
	for i := range secrets {
		if token, ok := bootstraptoken.Unused(&secrets[i], name, now.Add(tokenReserve)); ok {
			return token, nil
		}
	}
	token, secret := r.NewToken(name, now.Add(tokenValidity))
	secret.Labels = map[string]string{labelGardenlet: name}
	if err := r.Garden.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("create token for the gardenlet: %w", err)
	}
	return token, nil
}

// tokens are those that were created for a gardenlet.
func (r *Reconciler) tokens(ctx context.Context, name string) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	if err := r.Live.List(ctx, list, client.InNamespace(metav1.NamespaceSystem),
		client.MatchingLabels{labelGardenlet: name}); err != nil {
		return nil, fmt.Errorf("list tokens of the gardenlet: %w", err)
	}
	return list.Items, nil
}

// deleteTokens deletes those that were not used.
func (r *Reconciler) deleteTokens(ctx context.Context, name string) error {
	secrets, err := r.tokens(ctx, name)
	if err != nil {
		return err
	}
	for i := range secrets {
		if _, unused := bootstraptoken.Unused(&secrets[i], name, time.Time{}); !unused {
			continue // It is about to expire.
		}
		if _, err := kube.Delete(ctx, r.Garden, &secrets[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) report(
	ctx context.Context, gardenlet *seedmanagementv1alpha1.Gardenlet, condition corev1beta1.Condition,
) error {
	before, status := gardenlet.DeepCopy(), &gardenlet.Status
	status.Conditions = corev1beta1.SetCondition(status.Conditions, condition, r.Clock.Now())
	status.ObservedGeneration = gardenlet.Generation
	return kube.PatchSharedStatus(ctx, r.Garden, gardenlet, before)
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
