package extensionrole

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/reconnect"
)

const fieldOwner = "hortus-controller-manager"

// Cache limits the cache of kinds with many objects to those of the controller.
func Cache() (map[client.Object]cache.ByObject, error) {
	requested, err := labels.NewRequirement(resourcesv1alpha1.LabelRequestedIn, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("select ServiceAccounts of extensions: %w", err)
	}
	return map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}:     {Label: labels.NewSelector().Add(*requested)},
		&rbacv1.ClusterRoleBinding{}: {Label: labels.SelectorFromSet(labels.Set{LabelCustom: "true"})},
	}, nil
}

// Reconciler keeps the binding of one role per request.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	Events events.EventRecorder
}

// AddToManager registers the controller.
func (r *Reconciler) AddToManager(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(r.all)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("extension-clusterrole").
		For(&rbacv1.ClusterRole{}, builder.WithPredicates(predicate.Or(
			predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(ofBinding)).
		Watches(&corev1.ServiceAccount{}, all).
		Watches(&corev1beta1.ControllerInstallation{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{RateLimiter: reconnect.RateLimiter()}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("create controller of ClusterRoles for extensions: %w", err)
	}
	return nil
}

// all returns the roles that are bound.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return kube.RequestsFor(ctx, r.Garden, &rbacv1.ClusterRoleList{}, client.MatchingLabels{LabelCustom: "true"},
		client.UnsafeDisableDeepCopy)
}

// ofBinding returns the role of a binding.
func ofBinding(_ context.Context, binding client.Object) []reconcile.Request {
	role, ours := strings.CutPrefix(binding.GetName(), bindingPrefix)
	if !ours {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: role}}}
}

// Reconcile creates, updates or deletes the binding of a role.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	role := &rbacv1.ClusterRole{}
	found, err := exists(ctx, r.Garden, req.Name, role)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !found || role.Labels[LabelCustom] != "true" || role.DeletionTimestamp != nil {
		return reconcile.Result{}, r.remove(ctx, req.Name)
	}
	selector, err := selectorOf(role)
	if err != nil {
		r.Events.Eventf(role, nil, corev1.EventTypeWarning, "InvalidSelector", "Bind", "%v", err)
		return reconcile.Result{}, r.remove(ctx, req.Name)
	}
	accounts, installations := &corev1.ServiceAccountList{}, &corev1beta1.ControllerInstallationList{}
	if err := r.Garden.List(ctx, accounts); err != nil {
		return reconcile.Result{}, fmt.Errorf("list ServiceAccounts of extensions: %w", err)
	}
	if err := r.Garden.List(ctx, installations, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("list ControllerInstallations: %w", err)
	}
	binding := desired(role, subjects(selector, accounts.Items, installedBy(installations.Items)))
	if binding == nil {
		return reconcile.Result{}, r.remove(ctx, req.Name)
	}
	return reconcile.Result{}, kube.Apply(ctx, r.Garden, binding, fieldOwner)
}

// remove deletes the binding of a role, if there is one.
func (r *Reconciler) remove(ctx context.Context, role string) error {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: bindingPrefix + role}}
	found, err := exists(ctx, r.Garden, binding.Name, binding)
	if err != nil || !found {
		return err
	}
	_, err = kube.Delete(ctx, r.Garden, binding)
	return err
}

func exists(ctx context.Context, c client.Reader, name string, o client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %T %q: %w", o, name, err)
	}
	return err == nil, nil
}
