// Package binding marks the credentials and quotas of SecretBindings and CredentialsBindings: labels let admission
// plugins find them, a finalizer protects credentials while a binding refers to them.
//
// Trigger: bindings. Writes: labels and finalizers of Secrets, InternalSecrets, WorkloadIdentities and Quotas, and a
// finalizer on the binding itself while its credentials are marked.
package binding

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// marked is an object that bindings refer to.
type marked struct {
	schema.GroupVersionKind
	namespace, name string
}

// view holds the fields that both kinds of binding share.
type view struct {
	credentials marked
	quotas      []marked
	providers   []string
}

func ofSecretBinding(b *corev1beta1.SecretBinding) view {
	v := view{
		credentials: marked{
			corev1.SchemeGroupVersion.WithKind("Secret"), cmp.Or(b.SecretRef.Namespace, b.Namespace), b.SecretRef.Name,
		},
		quotas: quotas(b.Quotas, b.Namespace),
	}
	if b.Provider != nil {
		v.providers = strings.Split(b.Provider.Type, ",")
	}
	return v
}

func ofCredentialsBinding(b *securityv1alpha1.CredentialsBinding) view {
	ref := b.CredentialsRef
	return view{
		credentials: marked{
			schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), cmp.Or(ref.Namespace, b.Namespace), ref.Name,
		},
		quotas:    quotas(b.Quotas, b.Namespace),
		providers: []string{b.Provider.Type},
	}
}

func quotas(refs []corev1.ObjectReference, namespace string) []marked {
	var out []marked
	for _, ref := range refs {
		out = append(out, marked{
			corev1beta1.SchemeGroupVersion.WithKind("Quota"), cmp.Or(ref.Namespace, namespace), ref.Name,
		})
	}
	return out
}

// names reports whether the binding refers to an object.
func (v view) names(m marked) bool { return v.credentials == m || slices.Contains(v.quotas, m) }

// marks are the labels and the finalizer for an object.
type marks struct {
	label     string
	finalizer string
	providers []string // Provider types, for labels.
}

// Reconciler reconciles one of the kinds of binding.
type Reconciler struct {
	Garden client.Client // Cached reads of bindings, direct writes.
	Live   client.Reader // For metadata of the marked objects; most bindings never change.
	kind   kind
}

// kind holds the differences between the kinds of binding.
type kind struct {
	name      string
	label     string
	finalizer string
	new       func() client.Object
	view      func(client.Object) view
	all       func(context.Context, client.Reader) ([]client.Object, error)
}

var kinds = []kind{
	{
		name: "secretbinding", label: corev1beta1.LabelSecretBindingReference, finalizer: corev1beta1.FinalizerSecretBinding,
		new:  func() client.Object { return &corev1beta1.SecretBinding{} },
		view: func(o client.Object) view { return ofSecretBinding(o.(*corev1beta1.SecretBinding)) },
		all: func(ctx context.Context, r client.Reader) (out []client.Object, err error) {
			var list corev1beta1.SecretBindingList
			err = r.List(ctx, &list, client.UnsafeDisableDeepCopy)
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
			return out, err
		},
	},
	{
		name: "credentialsbinding", label: corev1beta1.LabelCredentialsBindingReference,
		finalizer: corev1beta1.FinalizerCredentialsBinding,
		new:       func() client.Object { return &securityv1alpha1.CredentialsBinding{} },
		view:      func(o client.Object) view { return ofCredentialsBinding(o.(*securityv1alpha1.CredentialsBinding)) },
		all: func(ctx context.Context, r client.Reader) (out []client.Object, err error) {
			var list securityv1alpha1.CredentialsBindingList
			err = r.List(ctx, &list, client.UnsafeDisableDeepCopy)
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
			return out, err
		},
	},
}

// AddToManager registers one controller per kind of binding.
func AddToManager(mgr ctrl.Manager) error {
	for _, k := range kinds {
		r := &Reconciler{Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), kind: k}
		if err := ctrl.NewControllerManagedBy(mgr).Named(k.name).For(k.new()).Complete(r); err != nil {
			return fmt.Errorf("create controller of kind %s: %w", k.name, err)
		}
	}
	return nil
}

// Reconcile marks the objects that a binding refers to, and removes the marks when the binding is deleted. The binding
// has the same finalizer as its credentials, so that it exists until the marks are removed.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	b := r.kind.new()
	if err := r.Garden.Get(ctx, req.NamespacedName, b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	v := r.kind.view(b)
	on := marks{label: r.kind.label, finalizer: r.kind.finalizer, providers: v.providers}
	if b.GetDeletionTimestamp() == nil {
		if err := kube.EnsureFinalizer(ctx, r.Garden, b, r.kind.finalizer); err != nil {
			return reconcile.Result{}, err
		}
		if err := r.mark(ctx, v.credentials, on); err != nil {
			return reconcile.Result{}, err
		}
		for _, q := range v.quotas {
			if err := r.mark(ctx, q, marks{label: on.label}); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(b, r.kind.finalizer) {
		return reconcile.Result{}, nil
	}
	if controllerutil.ContainsFinalizer(b, corev1beta1.FinalizerName) {
		return reconcile.Result{}, nil // Still in use by Shoots.
	}
	others, err := r.others(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, m := range append([]marked{v.credentials}, v.quotas...) {
		if slices.ContainsFunc(others, func(o view) bool { return o.names(m) }) {
			continue
		}
		if err := r.unmark(ctx, m, on); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, b, r.kind.finalizer)
}

// others returns the other bindings of the kind that are not being deleted.
func (r *Reconciler) others(ctx context.Context, b client.Object) ([]view, error) {
	all, err := r.kind.all(ctx, r.Garden)
	if err != nil {
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	var out []view
	for _, o := range all {
		if o.GetUID() != b.GetUID() && o.GetDeletionTimestamp() == nil {
			out = append(out, r.kind.view(o))
		}
	}
	return out, nil
}

// mark adds the labels and the finalizer to an object.
func (r *Reconciler) mark(ctx context.Context, m marked, on marks) error {
	return r.patch(ctx, m, func(o *metav1.PartialObjectMetadata) {
		metav1.SetMetaDataLabel(&o.ObjectMeta, on.label, "true")
		for _, p := range on.providers {
			metav1.SetMetaDataLabel(&o.ObjectMeta, corev1beta1.LabelPrefixShootProvider+p, "true")
		}
		if on.finalizer != "" && o.DeletionTimestamp == nil {
			controllerutil.AddFinalizer(o, on.finalizer)
		}
	})
}

// unmark removes the labels and the finalizer. Provider labels are removed only if no binding of the other kind refers
// to the object either.
func (r *Reconciler) unmark(ctx context.Context, m marked, on marks) error {
	return r.patch(ctx, m, func(o *metav1.PartialObjectMetadata) {
		delete(o.Labels, on.label)
		controllerutil.RemoveFinalizer(o, on.finalizer)
		if o.Labels[corev1beta1.LabelSecretBindingReference] == "true" ||
			o.Labels[corev1beta1.LabelCredentialsBindingReference] == "true" {
			return
		}
		for key := range o.Labels {
			if strings.HasPrefix(key, corev1beta1.LabelPrefixShootProvider) {
				delete(o.Labels, key)
			}
		}
	})
}

// markLabels are the labels among all that this package sets, sorted.
func markLabels(all map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key == corev1beta1.LabelSecretBindingReference || key == corev1beta1.LabelCredentialsBindingReference ||
			strings.HasPrefix(key, corev1beta1.LabelPrefixShootProvider) {
			out = append(out, key)
		}
	}
	return out
}

func (r *Reconciler) patch(ctx context.Context, m marked, change func(*metav1.PartialObjectMetadata)) error {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(m.GroupVersionKind)
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: m.name}, o); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // Admission rejects bindings to missing objects, so it has been deleted since.
		}
		return fmt.Errorf("read %s %s/%s: %w", m.Kind, m.namespace, m.name, err)
	}
	before := o.DeepCopy()
	change(o)
	if slices.Equal(before.Finalizers, o.Finalizers) && maps.Equal(before.Labels, o.Labels) {
		return nil
	}
	o.SetGroupVersionKind(m.GroupVersionKind)
	labels, finalizers := o.Labels, o.Finalizers
	err := r.Garden.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("patch %s %s/%s: %w", m.Kind, m.namespace, m.name, err)
	case err == nil:
		ctrl.LoggerFrom(ctx).Info("Changed the marks of an object that bindings refer to",
			"object", fmt.Sprintf("%s %s/%s", m.Kind, m.namespace, m.name), "labels", markLabels(labels),
			"finalizers", finalizers)
	}
	return nil
}
