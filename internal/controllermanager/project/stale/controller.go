package stale

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// Name of the controller.
const Name = "project-stale"

const (
	kindSecretBinding      = "SecretBinding"
	kindCredentialsBinding = "CredentialsBinding"
)

// Reconciler marks unused Projects as stale and eventually deletes them.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	Live   client.Reader // Checks for a use again before a deletion, which cannot be undone.
	Clock  clock.PassiveClock
	Config Config
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(Name).
		For(&corev1beta1.Project{}, builder.WithPredicates(newOrActive)).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// newOrActive passes Projects that are new, get their namespace, or were active.
var newOrActive = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1beta1.Project), e.ObjectNew.(*corev1beta1.Project)
		return before.Generation != after.Generation ||
			!before.Status.LastActivityTimestamp.Equal(after.Status.LastActivityTimestamp)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// Reconcile checks one Project.
func (r *Reconciler) Reconcile(ctx context.Context, p *corev1beta1.Project) (reconcile.Result, error) {
	if p.DeletionTimestamp != nil || p.Spec.Namespace == nil {
		return reconcile.Result{}, nil
	}
	use, err := useOf(ctx, r.Garden, *p.Spec.Namespace)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find out whether Project %q is used: %w", p.Name, err)
	}
	log.FromContext(ctx).V(1).Info("Checked whether the Project is used", "use", use)
	d := decide(p, use, r.Clock.Now(), r.Config)
	before := p.DeepCopy()
	p.Status.StaleSinceTimestamp, p.Status.StaleAutoDeleteTimestamp = d.since, d.autoDelete
	if err := kube.PatchStatus(ctx, r.Garden, p, before); err != nil {
		return reconcile.Result{}, err
	}
	if !d.delete {
		return reconcile.Result{RequeueAfter: d.again}, nil
	}
	if use, err := useOf(ctx, r.Live, *p.Spec.Namespace); err != nil || use != "" {
		return reconcile.Result{RequeueAfter: r.Config.SyncPeriod}, err
	}
	log.FromContext(ctx).Info("Deleting stale Project", "staleSince", d.since)
	before = p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1beta1.AnnotationConfirmationDeletion, "true")
	if err := r.Garden.Patch(ctx, p, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("confirm the deletion of Project %q: %w", p.Name, err)
	}
	if err := r.Garden.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("delete Project %q: %w", p.Name, err)
	}
	return reconcile.Result{}, nil
}

// useOf returns one use of a Project's namespace or the reason why it is exempt, "" if there is none.
func useOf(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	ns := &corev1.Namespace{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: namespace}, ns); {
	case apierrors.IsNotFound(err):
		return "its namespace is still to be made", nil
	case err != nil:
		return "", fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	if why := exempt(ns); why != "" {
		return why, nil
	}
	var shoots corev1beta1.ShootList
	var entries corev1beta1.BackupEntryList
	for _, list := range []client.ObjectList{&shoots, &entries} {
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(1),
			client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list %T in namespace %q: %w", list, namespace, err)
		}
	}
	if len(shoots.Items) > 0 {
		return "Shoot " + shoots.Items[0].Name, nil
	}
	if len(entries.Items) > 0 {
		return "BackupEntry " + entries.Items[0].Name, nil
	}
	bindings, err := bindingsOf(ctx, reader)
	if err != nil {
		return "", err
	}
	for _, b := range bindings {
		if !slices.Contains(b.refersTo, namespace) {
			continue
		}
		var users corev1beta1.ShootList
		if err := reader.List(ctx, &users, client.InNamespace(b.namespace), client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list Shoots in namespace %q: %w", b.namespace, err)
		}
		if b.usedBy(users.Items) {
			return b.kind + " " + b.namespace + "/" + b.name, nil
		}
	}
	return "", nil
}

// bindingsOf returns the bindings of all namespaces: they may refer to credentials and quotas of other namespaces.
func bindingsOf(ctx context.Context, reader client.Reader) (all []binding, err error) {
	var secrets corev1beta1.SecretBindingList
	var credentials securityv1alpha1.CredentialsBindingList
	for _, list := range []client.ObjectList{&secrets, &credentials} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	add := func(kind, namespace, name, credentialsNamespace string, quotas []corev1.ObjectReference) {
		b := binding{
			kind: kind, namespace: namespace, name: name, refersTo: []string{cmp.Or(credentialsNamespace, namespace)},
		}
		for _, quota := range quotas {
			b.refersTo = append(b.refersTo, cmp.Or(quota.Namespace, namespace))
		}
		all = append(all, b)
	}
	for i := range secrets.Items {
		b := &secrets.Items[i]
		add(kindSecretBinding, b.Namespace, b.Name, b.SecretRef.Namespace, b.Quotas)
	}
	for i := range credentials.Items {
		b := &credentials.Items[i]
		add(kindCredentialsBinding, b.Namespace, b.Name, b.CredentialsRef.Namespace, b.Quotas)
	}
	return all, nil
}
