package machineaccess

import (
	"context"
	"errors"
	"fmt"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Grants writes the rights of machines in the Shoot.
type Grants struct {
	Target client.Client // Cached reads of the objects below, direct writes.
}

// Ensure makes the rights of a machine so. Without a Node there are none yet.
func (g Grants) Ensure(ctx context.Context, m Machine) error {
	if m.Node == "" {
		return nil
	}
	want := desired(m)
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	return errors.Join(
		g.ensure(ctx, want.role, role, func() bool {
			same := equality.Semantic.DeepEqual(role.Rules, want.role.Rules)
			role.Rules = want.role.Rules
			return same
		}),
		g.ensure(ctx, want.binding, binding, func() bool {
			same := equality.Semantic.DeepEqual(binding.Subjects, want.binding.Subjects)
			binding.Subjects = want.binding.Subjects
			return same
		}),
	)
}

// ensure creates an object, or updates the current one if adopt has changed it.
func (g Grants) ensure(ctx context.Context, want, current client.Object, adopt func() (same bool)) error {
	err := g.Target.Get(ctx, client.ObjectKeyFromObject(want), current)
	switch {
	case apierrors.IsNotFound(err):
		// The cache may not have it yet: then the reconciliation of its arrival goes on.
		if err := g.Target.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %q: %w", want, want.GetName(), err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read %T %q: %w", want, want.GetName(), err)
	case adopt():
		return nil
	}
	if err := g.Target.Update(ctx, current); err != nil {
		return fmt.Errorf("update %T %q: %w", want, want.GetName(), err)
	}
	return nil
}

// hasNode tells whether the Node that a machine has rights to is still there.
func (g Grants) hasNode(ctx context.Context, machine string) (bool, error) {
	role := &rbacv1.ClusterRole{}
	if err := g.Target.Get(ctx, client.ObjectKey{Name: namePrefix + machine}, role); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	node := &corev1.Node{}
	err := g.Target.Get(ctx, client.ObjectKey{Name: nodeOf(role)}, node)
	return err == nil, client.IgnoreNotFound(err)
}

// remove takes the rights of a machine away.
func (g Grants) remove(ctx context.Context, machine string) error {
	meta := metav1.ObjectMeta{Name: namePrefix + machine}
	return errors.Join(
		client.IgnoreNotFound(g.Target.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta})),
		client.IgnoreNotFound(g.Target.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: meta})),
	)
}

// Reconciler keeps the rights of all machines.
type Reconciler struct {
	Machines  client.Reader // Cached, of the source cluster.
	Namespace string        // Of the Machines.
	Grants    Grants
}

// AddToManager registers the controller. A machine is reconciled when it changes, and when somebody changes its rights.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("machine-access").
		Watches(&machinev1alpha1.Machine{}, &handler.EnqueueRequestForObject{})
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(target, o, handler.EnqueueRequestsFromMapFunc(r.ofObject)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("create controller for the access of machines: %w", err)
	}
	return nil
}

func (r *Reconciler) ofObject(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: machineOf(o.GetName())}}}
}

// recheck is the time until it is looked again whether the Node of a machine that is gone is gone too.
const recheck = time.Minute

// Reconcile makes the rights of one machine so. A machine whose Node is there keeps its rights: the machine controller deletes
// Nodes first, and while a control plane moves, Nodes are there before Machines are restored.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &machinev1alpha1.Machine{}
	err := r.Machines.Get(ctx, req.NamespacedName, m)
	if apierrors.IsNotFound(err) {
		kept, err := r.Grants.hasNode(ctx, req.Name)
		if err != nil || kept {
			return reconcile.Result{RequeueAfter: recheck}, err
		}
		return reconcile.Result{}, r.Grants.remove(ctx, req.Name)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read machine %q: %w", req.Name, err)
	}
	return reconcile.Result{}, r.Grants.Ensure(ctx, Of(m))
}

// TargetCache limits the cache of the Shoot to what this package writes.
func TargetCache() map[client.Object]cache.ByObject {
	own, err := labels.Parse(label)
	if err != nil {
		panic(err) // A constant.
	}
	return map[client.Object]cache.ByObject{&rbacv1.ClusterRole{}: {Label: own}, &rbacv1.ClusterRoleBinding{}: {Label: own}}
}

// SourceCache keeps of Machines what Of reads.
func SourceCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&machinev1alpha1.Machine{}: {Transform: func(o any) (any, error) {
		if m, ok := o.(*machinev1alpha1.Machine); ok {
			m.ManagedFields, m.Annotations, m.Status = nil, nil, machinev1alpha1.MachineStatus{}
		}
		return o, nil
	}}}
}
