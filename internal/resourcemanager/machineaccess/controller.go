package machineaccess

import (
	"context"
	"errors"
	"fmt"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Grants writes the permissions of machines in the Shoot.
type Grants struct {
	Target client.Client // Cached reads of RBAC objects and of Nodes, direct writes.
	Direct client.Reader // For objects that the cache leaves out.
}

// Ensure creates or updates the permissions of a machine. A machine without a Node gets none.
func (g Grants) Ensure(ctx context.Context, m Machine) error {
	if m.Node == "" {
		return nil
	}
	want := desired(m)
	if err := g.noteNode(ctx, m, want.role); err != nil {
		return err
	}
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	return errors.Join(
		g.ensure(ctx, want.role, role, func() fit { return adoptRole(role, want.role) }),
		g.ensure(ctx, want.binding, binding, func() fit { return adoptBinding(binding, want.binding) }),
	)
}

// noteNode puts the UID of a machine's Node on its role. A machine that is being deleted keeps the one that is noted:
// its Node is deleted before it is, and a kubelet that makes another one would have rights without a machine.
func (g Grants) noteNode(ctx context.Context, m Machine, role *rbacv1.ClusterRole) error {
	if m.Leaving {
		return nil
	}
	node, err := g.node(ctx, m.Node)
	if err == nil && node != nil {
		role.Annotations = map[string]string{annotationNode: string(node.UID)}
	}
	return err
}

// node returns the Node of a name, nil if there is none.
func (g Grants) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := g.Target.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read node %q: %w", name, err)
	}
	return node, nil
}

// ensure creates an object, or corrects the current one as adopt says.
func (g Grants) ensure(ctx context.Context, want, current client.Object, adopt func() fit) error {
	key := client.ObjectKeyFromObject(want)
	err := g.Target.Get(ctx, key, current)
	if apierrors.IsNotFound(err) {
		err = g.Target.Create(ctx, want)
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %T %q: %w", want, key.Name, err)
		}
		// The cache does not contain it yet, or somebody has removed the label by which the cache selects it.
		err = g.Direct.Get(ctx, key, current)
	}
	if err != nil {
		return fmt.Errorf("read %T %q: %w", want, key.Name, err)
	}
	switch adopt() {
	case differs:
		err = g.Target.Update(ctx, current)
	case unfit:
		uid := current.GetUID()
		if err = g.Target.Delete(ctx, current, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) == nil {
			err = g.Target.Create(ctx, want)
		}
	}
	if err != nil {
		return fmt.Errorf("correct %T %q: %w", want, key.Name, err)
	}
	return nil
}

// role returns the role of a machine, nil if there is none.
func (g Grants) role(ctx context.Context, machine string) (*rbacv1.ClusterRole, error) {
	role := &rbacv1.ClusterRole{}
	if err := g.Target.Get(ctx, client.ObjectKey{Name: namePrefix + machine}, role); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read role of machine %q: %w", machine, err)
	}
	return role, nil
}

// remove takes the rights of a machine away.
func (g Grants) remove(ctx context.Context, machine string) error {
	meta := metav1.ObjectMeta{Name: namePrefix + machine}
	return errors.Join(
		client.IgnoreNotFound(g.Target.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta})),
		client.IgnoreNotFound(g.Target.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: meta})),
	)
}

// Reconciler maintains the permissions of all machines.
type Reconciler struct {
	Machines  client.Reader // Cached, of the source cluster.
	Namespace string        // Of the Machines.
	Grants    Grants
}

// AddToManager registers the controller. A machine is reconciled when it changes, when its permissions are changed, and
// when its Node is created or deleted.
func (r *Reconciler) AddToManager(mgr ctrl.Manager, target cache.Cache) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("machine-access").
		Watches(&machinev1alpha1.Machine{}, &handler.EnqueueRequestForObject{})
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(target, o, handler.EnqueueRequestsFromMapFunc(r.ofObject)))
	}
	nodes := source.Kind(target, client.Object(&corev1.Node{}), handler.EnqueueRequestsFromMapFunc(r.ofNode), identity)
	b = b.WatchesRawSource(nodes)
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("create controller for the access of machines: %w", err)
	}
	return nil
}

func (r *Reconciler) ofObject(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: r.Namespace, Name: machineOf(o.GetName()),
	}}}
}

// identity passes Nodes that come, are removed or have been replaced.
var identity = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
}

// ofNode returns the machines with rights to a Node. One that has none yet is reconciled when its role comes.
func (r *Reconciler) ofNode(ctx context.Context, node client.Object) []reconcile.Request {
	roles := &rbacv1.ClusterRoleList{}
	if err := r.Grants.Target.List(ctx, roles, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list roles in the cache")
		return nil
	}
	var out []reconcile.Request
	for i := range roles.Items {
		if nodeOf(&roles.Items[i]) == node.GetName() {
			out = append(out, r.ofObject(ctx, &roles.Items[i])...)
		}
	}
	return out
}

// Reconcile creates or updates the permissions of one machine. The permissions of a deleted machine remain as long as
// its Node exists: the machine controller deletes Nodes first, and during a control plane migration Nodes exist before
// their Machines are restored.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	m := &machinev1alpha1.Machine{}
	err := r.Machines.Get(ctx, req.NamespacedName, m)
	if err == nil {
		return reconcile.Result{}, r.Grants.Ensure(ctx, Of(m))
	}
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("read machine %q: %w", req.Name, err)
	}
	role, err := r.Grants.role(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if role != nil {
		node, err := r.Grants.node(ctx, nodeOf(role))
		if err != nil || keep(role, node) {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, r.Grants.remove(ctx, req.Name)
}

// TargetCache limits the cache of the Shoot to the objects that this package writes.
func TargetCache() map[client.Object]cache.ByObject {
	own, err := labels.Parse(label)
	if err != nil {
		panic(err) // A constant.
	}
	return map[client.Object]cache.ByObject{
		&rbacv1.ClusterRole{}: {Label: own}, &rbacv1.ClusterRoleBinding{}: {Label: own},
	}
}

// SourceCache reduces cached Machines to what Of reads and to their addresses, by which certificate requests are
// decided.
func SourceCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&machinev1alpha1.Machine{}: {Transform: func(o any) (any, error) {
		if m, ok := o.(*machinev1alpha1.Machine); ok {
			m.ManagedFields, m.Annotations = nil, nil
			m.Status = machinev1alpha1.MachineStatus{Addresses: m.Status.Addresses}
		}
		return o, nil
	}}}
}
