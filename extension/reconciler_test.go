package extension_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/extension/conformance"
)

const testNamespace = "shoot--dev--a"

// actuator records its calls and returns what a test sets.
type actuator struct {
	mu    sync.Mutex
	calls map[client.ObjectKey][]string
	fail  map[client.ObjectKey]error
	state map[client.ObjectKey][]byte
	wait  bool
}

type infra = *extensionsv1alpha1.Infrastructure

func newActuator() *actuator {
	return &actuator{
		calls: map[client.ObjectKey][]string{}, fail: map[client.ObjectKey]error{}, state: map[client.ObjectKey][]byte{},
	}
}

func (a *actuator) act(call string, obj infra) (extension.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	a.calls[key] = append(a.calls[key], call)
	if s := obj.Status.State; s != nil {
		a.state[key] = s.Raw
	}
	if err := a.fail[key]; err != nil {
		return extension.Result{}, err
	}
	if a.wait {
		return extension.Waiting("not yet", time.Second), nil
	}
	return extension.Done(), nil
}

func (a *actuator) Reconcile(_ context.Context, o infra, _ *extension.Cluster) (extension.Result, error) {
	return a.act("Reconcile", o)
}
func (a *actuator) Restore(_ context.Context, o infra, _ *extension.Cluster) (extension.Result, error) {
	return a.act("Restore", o)
}
func (a *actuator) Migrate(_ context.Context, o infra, _ *extension.Cluster) (extension.Result, error) {
	return a.act("Migrate", o)
}
func (a *actuator) Delete(_ context.Context, o infra, _ *extension.Cluster) (extension.Result, error) {
	return a.act("Delete", o)
}
func (a *actuator) ForceDelete(_ context.Context, o infra, _ *extension.Cluster) (extension.Result, error) {
	return a.act("ForceDelete", o)
}

// Calls, Fail and StateSeen implement conformance.Probe.
func (a *actuator) Calls(key client.ObjectKey) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[key]
}
func (a *actuator) Fail(key client.ObjectKey, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail[key] = err
}
func (a *actuator) StateSeen(key client.ObjectKey) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state[key]
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(extensionsv1alpha1.AddToScheme(s))
	return s
}

// generations lets the fake client count generations as a server does.
var generations = interceptor.Funcs{
	Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		obj.SetGeneration(1)
		return c.Create(ctx, obj, opts...)
	},
	Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
		opts ...client.PatchOption) error {
		before := obj.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), before); err != nil {
			return err
		}
		if err := c.Patch(ctx, obj, patch, opts...); err != nil {
			return err
		}
		a, ok1 := before.(infra)
		b, ok2 := obj.(infra)
		if ok1 && ok2 && !equality.Semantic.DeepEqual(a.Spec, b.Spec) &&
			(len(b.Finalizers) > 0 || b.DeletionTimestamp.IsZero()) {
			obj.SetGeneration(before.GetGeneration() + 1)
			return c.Update(ctx, obj)
		}
		return nil
	},
}

func newReconciler(c client.Client, a *actuator) *extension.Reconciler[infra] {
	return &extension.Reconciler[infra]{
		Client: c, Clock: testingclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Actuator: a,
		Prototype: &extensionsv1alpha1.Infrastructure{}, Kind: extensionsv1alpha1.InfrastructureKind, Type: "test",
	}
}

func newInfra() extensionsv1alpha1.Object {
	return &extensionsv1alpha1.Infrastructure{Spec: extensionsv1alpha1.InfrastructureSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "test"}, Region: "r1",
	}}
}

func TestReconcilerConforms(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme()).WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).
		WithInterceptorFuncs(generations).Build()
	a := newActuator()
	r := newReconciler(c, a)
	conformance.Run(t, conformance.Target{
		Client: c, Namespace: testNamespace, New: newInfra, Finalizer: "extensions.gardener.cloud/infrastructure", Probe: a,
		Change: func(o extensionsv1alpha1.Object) { o.(infra).Spec.SSHPublicKey = []byte("changed") },
		Step: func(ctx context.Context, key client.ObjectKey) error {
			_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
			return err
		},
	})
}

// TestReconcilerSurvivesStops stops the reconciler after every single write, in turn, and looks that the next start
// still brings the operation to its end.
func TestReconcilerSurvivesStops(t *testing.T) {
	errStop := errors.New("stopped")
	for name, tc := range map[string]struct {
		before, operation string // What was done before, and the operation under test; "" is deletion.
		want              corev1beta1.LastOperationType
	}{
		"create": {operation: extensionsv1alpha1.OperationReconcile, want: corev1beta1.LastOperationTypeCreate},
		"reconcile": {
			before: extensionsv1alpha1.OperationReconcile, operation: extensionsv1alpha1.OperationReconcile,
			want: corev1beta1.LastOperationTypeReconcile,
		},
		"restore": {operation: extensionsv1alpha1.OperationRestore, want: corev1beta1.LastOperationTypeRestore},
		"migrate": {
			before: extensionsv1alpha1.OperationReconcile, operation: extensionsv1alpha1.OperationMigrate,
			want: corev1beta1.LastOperationTypeMigrate,
		},
		"delete": {before: extensionsv1alpha1.OperationReconcile},
	} {
		t.Run(name, func(t *testing.T) {
			for stopAt := 1; ; stopAt++ {
				writes := 0
				count := func() error {
					if writes++; writes == stopAt {
						return errStop
					}
					return nil
				}
				funcs := interceptor.Funcs{
					Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
						opts ...client.PatchOption) error {
						if err := c.Patch(ctx, obj, patch, opts...); err != nil {
							return err
						}
						return count() // The write has happened, its answer is lost.
					},
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
						opts ...client.SubResourcePatchOption) error {
						if err := c.SubResource(sub).Patch(ctx, obj, patch, opts...); err != nil {
							return err
						}
						return count()
					},
				}
				base := fake.NewClientBuilder().WithScheme(scheme()).
					WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).Build()
				world := newWorld(t, base, tc.before, tc.operation)
				stopping := newReconciler(interceptor.NewClient(base, funcs), newActuator())
				if _, err := stopping.Reconcile(t.Context(), world); !errors.Is(err, errStop) {
					if stopAt == 1 {
						t.Fatalf("no write at all, error %v", err)
					}
					return // All writes have been tried.
				}
				a := newActuator()
				again := newReconciler(base, a)
				for range 3 {
					if _, err := again.Reconcile(t.Context(), world); err != nil {
						t.Fatalf("after a stop at write %d: %v", stopAt, err)
					}
				}
				obj := &extensionsv1alpha1.Infrastructure{}
				err := base.Get(t.Context(), world.NamespacedName, obj)
				if tc.operation == "" {
					if client.IgnoreNotFound(err) != nil || err == nil {
						t.Fatalf("after a stop at write %d the object is still there (error %v)", stopAt, err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if op := obj.Status.LastOperation; op == nil || op.Type != tc.want ||
					op.State != corev1beta1.LastOperationStateSucceeded {
					t.Errorf("after a stop at write %d lastOperation is %+v, want %s to succeed", stopAt, op, tc.want)
				}
				if op, asked := obj.Annotations[extensionsv1alpha1.AnnotationOperation]; asked {
					t.Errorf("after a stop at write %d the request %q is still there", stopAt, op)
				}
			}
		})
	}
}

// newWorld prepares an object on which the operation is the next thing to do.
func newWorld(t *testing.T, c client.WithWatch, before, operation string) reconcile.Request {
	t.Helper()
	cluster := &extensionsv1alpha1.Cluster{}
	cluster.Name = testNamespace
	cluster.Spec.Shoot.Raw, cluster.Spec.CloudProfile.Raw = []byte(`{}`), []byte(`{}`)
	if err := c.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	obj := newInfra().(infra)
	obj.Namespace, obj.Name = testNamespace, "a"
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}
	obj.Annotations = map[string]string{
		extensionsv1alpha1.AnnotationOperation: operation,
		extensionsv1alpha1.AnnotationTimestamp: "2026-01-02T03:04:05.000000005Z",
	}
	if before != "" {
		obj.Annotations[extensionsv1alpha1.AnnotationOperation] = before
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	if before == "" {
		return req
	}
	if _, err := newReconciler(c, newActuator()).Reconcile(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), req.NamespacedName, obj); err != nil {
		t.Fatal(err)
	}
	if operation == "" {
		if err := c.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		return req
	}
	obj.Annotations = maps.Clone(obj.Annotations)
	if obj.Annotations == nil {
		obj.Annotations = map[string]string{}
	}
	obj.Annotations[extensionsv1alpha1.AnnotationOperation] = operation
	if err := c.Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return req
}

// TestNewerRequestIsKept: the object that is reconciled comes from a cache that has not seen the newest request.
func TestNewerRequestIsKept(t *testing.T) {
	const newer = "2026-01-02T03:04:05.000000006Z"
	for _, tc := range []struct{ name, before, read, newer string }{
		{"reconcile, requested again", extensionsv1alpha1.OperationReconcile, extensionsv1alpha1.OperationReconcile,
			extensionsv1alpha1.OperationReconcile},
		{"reconcile after a restore", extensionsv1alpha1.OperationReconcile, extensionsv1alpha1.OperationRestore,
			extensionsv1alpha1.OperationReconcile},
		{"restore after a migration", extensionsv1alpha1.OperationReconcile, extensionsv1alpha1.OperationMigrate,
			extensionsv1alpha1.OperationRestore},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := fake.NewClientBuilder().WithScheme(scheme()).WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).
				Build()
			req := newWorld(t, base, tc.before, tc.read)
			stale := &extensionsv1alpha1.Infrastructure{}
			if err := base.Get(t.Context(), req.NamespacedName, stale); err != nil {
				t.Fatal(err)
			}
			asked := stale.DeepCopy()
			asked.Annotations[extensionsv1alpha1.AnnotationOperation] = tc.newer
			asked.Annotations[extensionsv1alpha1.AnnotationTimestamp] = newer
			if err := base.Update(t.Context(), asked); err != nil {
				t.Fatal(err)
			}
			behind := interceptor.NewClient(base, interceptor.Funcs{
				Get: func(
					ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
				) error {
					if infra, ok := obj.(*extensionsv1alpha1.Infrastructure); ok {
						stale.DeepCopyInto(infra)
						return nil
					}
					return c.Get(ctx, key, obj, opts...)
				},
				Patch: func(
					ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
				) error {
					err := c.Patch(ctx, obj, patch, opts...)
					if err != nil && strings.Contains(err.Error(), "test failed") { // A server answers so.
						return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
							err.Error(), 0, true)
					}
					return err
				},
			})
			_, err := newReconciler(behind, newActuator()).Reconcile(t.Context(), req)
			if err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			got := &extensionsv1alpha1.Infrastructure{}
			if err := base.Get(t.Context(), req.NamespacedName, got); err != nil {
				t.Fatal(err)
			}
			if got.Annotations[extensionsv1alpha1.AnnotationOperation] != tc.newer {
				t.Errorf("annotations are %v, want the operation %q still to be done", got.Annotations, tc.newer)
			}
		})
	}
}

func TestWaitingIsShownAndEnds(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme()).WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).Build()
	req := newWorld(t, c, "", extensionsv1alpha1.OperationReconcile)
	a := newActuator()
	a.wait = true
	r := newReconciler(c, a)
	res, err := r.Reconcile(t.Context(), req)
	if err != nil || res.RequeueAfter != time.Second {
		t.Fatalf("Reconcile() = %v, %v, want to be called again after 1s", res, err)
	}
	obj := &extensionsv1alpha1.Infrastructure{}
	if err := c.Get(t.Context(), req.NamespacedName, obj); err != nil {
		t.Fatal(err)
	}
	if op := obj.Status.LastOperation; op.State != corev1beta1.LastOperationStateProcessing ||
		op.Description != "not yet" {
		t.Errorf("lastOperation is %+v, want Processing with the reason", op)
	}
	a.wait = false
	if _, err := r.Reconcile(t.Context(), req); err != nil { // Woken by a watch, without a request.
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), req.NamespacedName, obj); err != nil {
		t.Fatal(err)
	}
	if op := obj.Status.LastOperation; op.State != corev1beta1.LastOperationStateSucceeded ||
		op.Type != corev1beta1.LastOperationTypeCreate {
		t.Errorf("lastOperation is %+v, want Create to succeed", op)
	}
}

func TestStaleReadsAreNoErrors(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	for name, err := range map[string]error{
		"a conflict":                        apierrors.NewConflict(resource, "a", errors.New("modified")),
		"an object the cache does not know": fmt.Errorf("create thing: %w", apierrors.NewAlreadyExists(resource, "a")),
	} {
		for operation, calls := range map[string][]string{
			extensionsv1alpha1.OperationReconcile: {"Reconcile", "Reconcile"},
			extensionsv1alpha1.OperationRestore:   {"Restore", "Restore"},
		} {
			t.Run(name+" in "+operation, func(t *testing.T) {
				c := fake.NewClientBuilder().WithScheme(scheme()).
					WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).Build()
				req := newWorld(t, c, "", operation)
				a := newActuator()
				a.Fail(req.NamespacedName, err)
				r := newReconciler(c, a)
				res, got := r.Reconcile(t.Context(), req)
				if got != nil || res.RequeueAfter == 0 {
					t.Fatalf("Reconcile() = %v, %v, want to be called again", res, got)
				}
				obj := &extensionsv1alpha1.Infrastructure{}
				if err := c.Get(t.Context(), req.NamespacedName, obj); err != nil {
					t.Fatal(err)
				}
				if obj.Status.LastError != nil || obj.Status.LastOperation.State != corev1beta1.LastOperationStateProcessing {
					t.Errorf("status is %+v, %+v, want no error", obj.Status.LastOperation, obj.Status.LastError)
				}
				a.Fail(req.NamespacedName, nil)
				if _, err := r.Reconcile(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(calls, a.Calls(req.NamespacedName)); diff != "" {
					t.Errorf("calls mismatch (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// follower needs its objects again when a test says so.
type follower struct {
	*actuator
	needed bool
}

func (f *follower) FollowUp(context.Context, infra) (bool, error) {
	return f.needed, nil
}

func TestSucceededObjectsAreFollowedUp(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme()).WithStatusSubresource(&extensionsv1alpha1.Infrastructure{}).Build()
	req := newWorld(t, c, "", extensionsv1alpha1.OperationReconcile)
	f := &follower{actuator: newActuator()}
	r := newReconciler(c, f.actuator)
	r.Actuator = f
	for i, tc := range []struct {
		needed bool
		calls  int
	}{{false, 1}, {false, 1}, {true, 2}, {false, 2}} { // The first time it was requested.
		f.needed = tc.needed
		if _, err := r.Reconcile(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := len(f.calls[req.NamespacedName]); got != tc.calls {
			t.Errorf("after event %d the actuator was called %d times, want %d", i, got, tc.calls)
		}
	}
	obj := &extensionsv1alpha1.Infrastructure{}
	if err := c.Get(t.Context(), req.NamespacedName, obj); err != nil {
		t.Fatal(err)
	}
	if op := obj.Status.LastOperation; op.State != corev1beta1.LastOperationStateSucceeded ||
		op.Type != corev1beta1.LastOperationTypeReconcile {
		t.Errorf("lastOperation is %+v, want Reconcile to succeed", op)
	}
}
