package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/kube"
)

const (
	fieldOwner = "hortus-controller-manager"
	finalizer  = "gardener"
	workers    = 5
)

// Reconciler gives every Project a namespace and the roles its members need.
type Reconciler struct {
	Garden client.Client // Cached reads, direct writes.
	// Live reads what a deletion depends on: the cache may not contain a new Shoot, whose namespace would be deleted.
	Live     client.Reader
	Recorder events.EventRecorder

	applied kube.ApplyCache
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("project").
		For(&corev1beta1.Project{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
			o client.Object) []reconcile.Request {
			name := o.GetLabels()[labelProjectName]
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
		})).
		Watches(&corev1beta1.Shoot{}, handler.EnqueueRequestsFromMapFunc(r.ofShoot), builder.WithPredicates(onlyDeletions)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

// Reconcile reconciles one Project. It may be interrupted after any write and start over.
func (r *Reconciler) Reconcile(ctx context.Context, p *corev1beta1.Project) (res reconcile.Result, err error) {
	before := p.DeepCopy()
	defer func() { // Status is written once, in every case.
		p.Status.ObservedGeneration = p.Generation
		err = errors.Join(err, kube.PatchStatus(ctx, r.Garden, p, before))
	}()
	if !p.DeletionTimestamp.IsZero() {
		p.Status.Phase = corev1beta1.ProjectTerminating
		return r.delete(ctx, p)
	}
	if p.Status.Phase == "" {
		p.Status.Phase = corev1beta1.ProjectPending
	}
	if err := kube.EnsureFinalizer(ctx, r.Garden, p, finalizer); err != nil {
		return res, err
	}
	if err := r.ensureNamespace(ctx, p); err != nil {
		p.Status.Phase = corev1beta1.ProjectFailed
		r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, "NamespaceReconcileFailed", "Reconcile", "%v", err)
		return res, err
	}
	for _, object := range desiredAccess(p) {
		if err := r.applied.Apply(ctx, r.Garden, object, fieldOwner); err != nil {
			return res, err
		}
	}
	if err := r.removeStaleExtensionRoles(ctx, p); err != nil {
		return res, err
	}
	p.Status.Phase = corev1beta1.ProjectReady
	return res, nil
}

// ensureNamespace creates or adopts the namespace, and sets its name in the spec if that is empty.
func (r *Reconciler) ensureNamespace(ctx context.Context, p *corev1beta1.Project) error {
	wanted := desiredNamespace(p)
	existing := &corev1.Namespace{}
	err := r.Garden.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	switch {
	case apierrors.IsNotFound(err):
		wanted.Annotations[annotationCreatedByUs] = "true"
	case err != nil:
		return fmt.Errorf("read namespace %q: %w", wanted.Name, err)
	default:
		if reason := adoptable(p, existing); reason != "" {
			return fmt.Errorf("use namespace %q: %s", wanted.Name, reason)
		}
		if existing.Annotations[annotationCreatedByUs] == "true" {
			wanted.Annotations[annotationCreatedByUs] = "true"
		} else {
			wanted.Annotations[annotationKeepAfter] = "true"
		}
	}
	if err := r.applied.Apply(ctx, r.Garden, wanted, fieldOwner); err != nil {
		return err
	}
	if p.Spec.Namespace != nil {
		return nil
	}
	before := p.DeepCopy()
	p.Spec.Namespace = &wanted.Name
	status := p.Status
	if err := r.Garden.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set namespace of Project %q: %w", p.Name, err)
	}
	p.Status = status // The response has the stored status; ours is written at the end.
	return nil
}

// removeStaleExtensionRoles deletes the roles of extensions that no member has any more.
func (r *Reconciler) removeStaleExtensionRoles(ctx context.Context, p *corev1beta1.Project) error {
	wanted := map[string]bool{}
	for _, role := range extensionRoles(p) {
		wanted[roleExtensionPrefix+p.Name+":"+role] = true
	}
	var bindings rbacv1.RoleBindingList
	if err := r.Garden.List(ctx, &bindings, client.InNamespace(namespaceName(p)),
		client.MatchingLabels{labelRole: roleProject}); err != nil {
		return fmt.Errorf("list role bindings of Project %q: %w", p.Name, err)
	}
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		if !strings.HasPrefix(binding.Name, roleExtensionPrefix+p.Name+":") || wanted[binding.Name] {
			continue
		}
		role := &rbacv1.ClusterRole{}
		role.Name = binding.Name
		for _, object := range []client.Object{binding, role} {
			if err := client.IgnoreNotFound(r.Garden.Delete(ctx, object)); err != nil {
				return fmt.Errorf("delete role of an extension %q: %w", binding.Name, err)
			}
		}
	}
	return nil
}

// delete waits until the Shoots are gone, then deletes or releases the namespace.
func (r *Reconciler) delete(ctx context.Context, p *corev1beta1.Project) (reconcile.Result, error) {
	namespace := namespaceName(p)
	var shoots corev1beta1.ShootList
	if err := r.Live.List(ctx, &shoots, client.InNamespace(namespace), client.Limit(1)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list Shoots of Project %q: %w", p.Name, err)
	}
	if len(shoots.Items) > 0 { // The deletion of the last one triggers a reconciliation.
		r.Recorder.Eventf(p, nil, corev1.EventTypeWarning, "NamespaceNotEmpty", "Delete",
			"Shoots are left in namespace %q, for instance %q", namespace, shoots.Items[0].Name)
		return reconcile.Result{}, nil
	}
	existing := &corev1.Namespace{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: namespace}, existing)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	if err == nil && existing.Annotations[annotationProject] == string(p.UID) {
		if stays(existing) {
			log.FromContext(ctx).Info("Releasing namespace that was there before the Project", "Namespace", namespace)
			if err := r.release(ctx, existing); err != nil {
				return reconcile.Result{}, err
			}
		} else {
			if existing.DeletionTimestamp.IsZero() {
				r.Recorder.Eventf(p, nil, corev1.EventTypeNormal, "NamespaceMarkedForDeletion", "Delete", "Deleting namespace %q",
					namespace)
				log.FromContext(ctx).Info("Deleting namespace of Project", "Namespace", namespace)
				if err := client.IgnoreNotFound(r.Garden.Delete(ctx, existing)); err != nil {
					return reconcile.Result{}, fmt.Errorf("delete namespace %q: %w", namespace, err)
				}
			}
			return reconcile.Result{}, nil // Its deletion triggers a reconciliation.
		}
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, p, finalizer)
}

// release removes the project's marks from a namespace that existed before the project.
func (r *Reconciler) release(ctx context.Context, ns *corev1.Namespace) error {
	before := ns.DeepCopy()
	delete(ns.Annotations, annotationProject)
	delete(ns.Annotations, annotationKeepAfter)
	delete(ns.Labels, labelRole)
	delete(ns.Labels, labelProjectName)
	if err := r.Garden.Patch(ctx, ns, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("release namespace %q: %w", ns.Name, err)
	}
	return nil
}

// onlyDeletions passes deletions of objects. Objects can be deleted without a deletion timestamp first.
var onlyDeletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// ofShoot maps a deleted Shoot to its project, whose deletion may wait for it.
func (r *Reconciler) ofShoot(ctx context.Context, shoot client.Object) []reconcile.Request {
	ns := &corev1.Namespace{}
	if err := r.Garden.Get(ctx, client.ObjectKey{Name: shoot.GetNamespace()}, ns); err != nil ||
		ns.Labels[labelProjectName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ns.Labels[labelProjectName]}}}
}
