package managedseed

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/pki"
)

const (
	fieldOwner = "gardenlet"
	// resourceName of the ManagedResource, in the namespace of the Shoot's control plane.
	resourceName = "gardenlet"
	// kubeconfigName of the Secret with the first kubeconfig of the gardenlet, in the same namespace.
	kubeconfigName = "gardenlet-kubeconfig-garden"
	keyKubeconfig  = "kubeconfig"

	// waitPeriod is the pause between two looks at a gardenlet that is being installed or removed. That takes seconds, and
	// Seeds of others cannot be watched.
	waitPeriod = 2 * time.Second
	// syncPeriod is the pause between two repairs of what is installed.
	syncPeriod = time.Hour
)

// Garden is the address of the garden, and the source of certificates for it.
type Garden interface {
	// Garden returns a kubeconfig for the garden without credentials.
	Garden(ctx context.Context) (pki.Kubeconfig, error)
}

// Issuer issues the certificates of gardenlets.
type Issuer interface {
	// Certificate returns a certificate for the gardenlet of a Seed, or nil while it is being issued; until Forget is
	// called, it is the same one.
	Certificate(ctx context.Context, seed string, validity *time.Duration) (*pki.KeyPair, error)
	Forget(seed string)
}

// Reconciler installs gardenlets in the Shoots of one Seed.
type Reconciler struct {
	Garden   client.Client // Direct reads and writes.
	Seed     client.Client // Direct reads and writes.
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	SeedName string
	Parent   Parent
	Server   Garden
	Issuer   Issuer
}

// Reconcile installs or removes the gardenlet of one ManagedSeed. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed,
) (reconcile.Result, error) {
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(managed), managed); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if managed.Spec.Shoot == nil {
		return reconcile.Result{}, nil
	}
	shoot := &corev1beta1.Shoot{}
	key := client.ObjectKey{Namespace: managed.Namespace, Name: managed.Spec.Shoot.Name}
	if err := r.Garden.Get(ctx, key, shoot); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ptr.Deref(shoot.Status.SeedName, ptr.Deref(shoot.Spec.SeedName, "")) != r.SeedName {
		return reconcile.Result{}, nil // Another gardenlet is responsible.
	}
	if managed.DeletionTimestamp != nil {
		return r.remove(ctx, managed, shoot)
	}
	if err := kube.EnsureFinalizer(ctx, r.Garden, managed, corev1beta1.FinalizerName); err != nil {
		return reconcile.Result{}, err
	}
	reconciled := shootReconciled(shoot)
	if reconciled.Status != corev1beta1.ConditionTrue && !installed(managed) {
		return reconcile.Result{}, r.report(ctx, managed, reconciled) // The Shoot's next change leads here again.
	}
	waits, installErr := r.install(ctx, managed, shoot)
	seed, seedErr := r.seed(ctx, managed.Name)
	err := errors.Join(installErr, seedErr)
	registered := seedRegistered(managed.Name, seed != nil, waits, err)
	if err := errors.Join(err, r.report(ctx, managed, reconciled, registered)); err != nil {
		return reconcile.Result{}, err
	}
	if waits != "" || seed == nil {
		return reconcile.Result{RequeueAfter: waitPeriod}, nil
	}
	return reconcile.Result{RequeueAfter: syncPeriod}, nil
}

// installed reports whether the gardenlet has been installed: its configuration is changed even while the Shoot has an
// error.
func installed(managed *seedmanagementv1alpha1.ManagedSeed) bool {
	c := corev1beta1.FindCondition(managed.Status.Conditions, seedmanagementv1alpha1.SeedRegistered)
	return c != nil && c.Status == corev1beta1.ConditionTrue
}

// install passes the gardenlet to the Shoot's resource-manager, and returns what it is waiting for; empty if the
// gardenlet runs.
func (r *Reconciler) install(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed, shoot *corev1beta1.Shoot,
) (string, error) {
	kubeconfig, err := r.kubeconfig(ctx, managed, shoot.Status.TechnicalID)
	if err != nil {
		return "", err
	}
	if kubeconfig == nil {
		return "The garden has not issued the gardenlet's certificate yet.", nil
	}
	objects, err := objects(managed, r.Parent, kubeconfig)
	if err != nil {
		return "", err
	}
	secret, mr, err := managedresource.ForShoot(r.Seed.Scheme(), shoot.Status.TechnicalID, resourceName, objects...)
	if err != nil {
		return "", err
	}
	for _, o := range []client.Object{secret, mr} {
		if err := kube.Apply(ctx, r.Seed, o, fieldOwner); err != nil {
			return "", err
		}
	}
	if managed.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRenewKubeconfig {
		if err := kube.RemoveAnnotation(ctx, r.Garden, managed, corev1beta1.AnnotationOperation,
			corev1beta1.OperationRenewKubeconfig); err != nil {
			return "", err
		}
	}
	if ready, why := managedresource.Ready(mr, managedresource.Checksum(secret)); !ready {
		return why, nil
	}
	return "", nil
}

// kubeconfig returns the first kubeconfig of the gardenlet, which renews its certificate itself. nil means that its
// certificate is being issued.
func (r *Reconciler) kubeconfig(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed, controlPlane string,
) ([]byte, error) {
	pair, err := r.certificate(ctx, managed, controlPlane)
	if err != nil || pair == nil {
		return nil, err
	}
	kubeconfig, err := r.Server.Garden(ctx)
	if err != nil {
		return nil, err
	}
	if err := atAddress(&kubeconfig, managed, r.Parent.Config); err != nil {
		return nil, err
	}
	kubeconfig.Client = pair
	text, err := kubeconfig.Render()
	if err != nil {
		return nil, err
	}
	if err := kube.Apply(ctx, r.Seed, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: kubeconfigName},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{keyKubeconfig: text},
	}, fieldOwner); err != nil {
		return nil, err
	}
	r.Issuer.Forget(managed.Name)
	return text, nil
}

// certificate returns the certificate that was issued before, or a new one if there is none or a renewal is requested.
// nil means that it is being issued.
func (r *Reconciler) certificate(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed, controlPlane string,
) (*pki.KeyPair, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: kubeconfigName}}
	found, err := kube.Exists(ctx, r.Seed, secret)
	if err != nil {
		return nil, err
	}
	if managed.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRenewKubeconfig {
		found = false
	}
	if !found {
		return r.Issuer.Certificate(ctx, managed.Name, r.validity())
	}
	stored, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[keyKubeconfig])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return &pki.KeyPair{CertPEM: stored.CertData, KeyPEM: stored.KeyData}, nil
}

// seed reads a Seed; nil if it does not exist.
func (r *Reconciler) seed(ctx context.Context, name string) (*corev1beta1.Seed, error) {
	seed := &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if found, err := kube.Exists(ctx, r.Garden, seed); err != nil || !found {
		return nil, err
	}
	return seed, nil
}

// remove deletes the Seed, which its gardenlet releases when nothing depends on it any more, then the gardenlet.
func (r *Reconciler) remove(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed, shoot *corev1beta1.Shoot,
) (reconcile.Result, error) {
	waits := func(text string) (reconcile.Result, error) {
		c := corev1beta1.Condition{
			Type: seedmanagementv1alpha1.SeedRegistered, Status: corev1beta1.ConditionFalse, Reason: reasonDeleting,
			Message: text,
		}
		return reconcile.Result{RequeueAfter: waitPeriod}, r.report(ctx, managed, c)
	}
	seed, err := r.seed(ctx, managed.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if seed != nil {
		if seed.DeletionTimestamp == nil {
			if _, err := kube.Delete(ctx, r.Garden, seed); err != nil {
				return reconcile.Result{}, err
			}
		}
		text := fmt.Sprintf("Seed %q is being deleted.", seed.Name)
		if last := seed.Status.LastOperation; last != nil && last.Type == corev1beta1.LastOperationTypeDelete {
			text = fmt.Sprintf("Seed %q is being deleted: %s", seed.Name, last.Description)
		}
		return waits(text)
	}
	controlPlane := shoot.Status.TechnicalID
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: resourceName}}
	if gone, err := kube.Delete(ctx, r.Seed, mr); err != nil {
		return reconcile.Result{}, err
	} else if !gone {
		return waits("The gardenlet is being removed.")
	}
	for _, name := range []string{managedresource.SecretName(resourceName), kubeconfigName} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: name}}
		if _, err := kube.Delete(ctx, r.Seed, secret); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, managed, corev1beta1.FinalizerName)
}

// report writes conditions, and an event for each that has become true or has got an error.
func (r *Reconciler) report(
	ctx context.Context, managed *seedmanagementv1alpha1.ManagedSeed, conditions ...corev1beta1.Condition,
) error {
	before := managed.DeepCopy()
	status := &managed.Status
	for _, c := range conditions {
		status.Conditions = corev1beta1.SetCondition(status.Conditions, c, r.Clock.Now())
	}
	status.ObservedGeneration = managed.Generation
	if err := kube.PatchStatus(ctx, r.Garden, managed, before); err != nil {
		return err
	}
	for _, c := range conditions {
		old := corev1beta1.FindCondition(before.Status.Conditions, c.Type)
		if old != nil && old.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Reason == reasonReconcileError {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(managed, nil, kind, c.Reason, "Reconcile", "%s", c.Message)
	}
	return nil
}

// validity of certificates to request; nil leaves it to the signer.
func (r *Reconciler) validity() *time.Duration {
	if v := r.Parent.Config.GardenClientConnection.KubeconfigValidity; v != nil && v.Validity != nil {
		return &v.Validity.Duration
	}
	return nil
}
