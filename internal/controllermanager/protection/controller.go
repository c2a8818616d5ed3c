package protection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/kube"
)

// catchUp is when an object is checked again whose users the cache does not contain yet: long enough for watch events
// on a busy machine.
const catchUp = 5 * time.Second

// shownUsers is the maximum number of users that an event names.
const shownUsers = 5

// Reconciler protects the objects of one kind.
type Reconciler struct {
	Garden   client.Client // Cached reads, direct writes.
	Live     client.Reader // Checks for users again before an object is released: the cache may not contain a new one.
	Recorder events.EventRecorder
	Kind     Kind
}

// AddToManager registers one controller per kind.
func AddToManager(mgr ctrl.Manager) error {
	for _, kind := range Kinds() {
		r := &Reconciler{
			Garden: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("hortus-" + kind.Name),
			Kind: kind,
		}
		if err := AddIndexes(context.Background(), mgr.GetFieldIndexer(), kind); err != nil {
			return err
		}
		b := ctrl.NewControllerManagedBy(mgr).Named(kind.Name+"-protection").For(kind.New(),
			builder.WithPredicates(deletionOrCreation))
		for _, user := range kind.Users {
			b = b.Watches(user.New(), released(user))
		}
		if err := b.Complete(r); err != nil {
			return fmt.Errorf("create protection of kind %s: %w", kind.Name, err)
		}
	}
	return nil
}

// deletionOrCreation ignores updates that change neither finalizers nor the deletion timestamp.
var deletionOrCreation = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectNew.GetDeletionTimestamp() != nil ||
		!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers())
}}

// index returns the name of the index of users by the objects of the kind that they refer to.
func (k Kind) index() string { return "refers.to/" + k.Name }

// AddIndexes adds the indexes for the users of objects of a kind.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, kind Kind) error {
	for _, user := range kind.Users {
		err := indexer.IndexField(ctx, user.New(), kind.index(), IndexValues(user))
		if err != nil {
			return fmt.Errorf("index kind %s by %s: %w", user.Kind, kind.Name, err)
		}
	}
	return nil
}

// IndexValues returns the function that converts references to values of the index.
func IndexValues(user User) client.IndexerFunc {
	return func(o client.Object) []string {
		var out []string
		for _, name := range user.Refers(o) {
			out = append(out, name.String())
		}
		return out
	}
}

// released enqueues the objects that a user no longer refers to. New references need no reconciliation.
func released(user User) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			now := user.Refers(e.ObjectNew)
			for _, name := range user.Refers(e.ObjectOld) {
				if !slices.Contains(now, name) {
					q.Add(reconcile.Request{NamespacedName: name})
				}
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			for _, name := range user.Refers(e.Object) {
				q.Add(reconcile.Request{NamespacedName: name})
			}
		},
	}
}

// Reconcile adds the finalizer to an object, or removes it if the object is being deleted and nothing refers to it.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.Kind.New()
	if err := r.Garden.Get(ctx, req.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if object.GetDeletionTimestamp() == nil {
		return reconcile.Result{}, kube.EnsureFinalizer(ctx, r.Garden, object, r.Kind.Finalizer)
	}
	if !controllerutil.ContainsFinalizer(object, r.Kind.Finalizer) {
		return reconcile.Result{}, nil
	}
	users, err := r.users(ctx, r.Garden, req.NamespacedName, client.MatchingFields{r.Kind.index(): req.String()},
		client.UnsafeDisableDeepCopy)
	cached := len(users) > 0
	if err == nil && !cached {
		users, err = r.users(ctx, r.Live, req.NamespacedName, client.InNamespace(req.Namespace))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(users) > 0 {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, "ResourceReferenced", "Delete",
			"Cannot be deleted yet, still in use by %s", sentence(users))
		if !cached { // A reference that is removed before the cache contains it triggers nothing.
			return reconcile.Result{RequeueAfter: catchUp}, nil
		}
		return reconcile.Result{}, nil // The removal of the last reference triggers a reconciliation.
	}
	return reconcile.Result{}, kube.RemoveFinalizer(ctx, r.Garden, object, r.Kind.Finalizer)
}

// users returns the objects that refer to an object, sorted.
func (r *Reconciler) users(
	ctx context.Context, reader client.Reader, name types.NamespacedName, opts ...client.ListOption,
) ([]string, error) {
	var out []string
	for _, user := range r.Kind.Users {
		list := user.List()
		if err := reader.List(ctx, list, opts...); err != nil {
			return nil, fmt.Errorf("list kind %s: %w", user.Kind, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, fmt.Errorf("read list of kind %s: %w", user.Kind, err)
		}
		for _, item := range items {
			if o, ok := item.(client.Object); ok && slices.Contains(user.Refers(o), name) {
				out = append(out, strings.TrimPrefix(user.Kind+" "+client.ObjectKeyFromObject(o).String(), "/"))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func sentence(users []string) string {
	if more := len(users) - shownUsers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(users[:shownUsers], ", "), more)
	}
	return strings.Join(users, ", ")
}
