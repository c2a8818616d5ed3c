package managedresource

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// faults breaks one write to either cluster: before it is done, after it was done, or with a conflict.
type faults struct {
	at    int // Number of the write that fails, from 1.
	how   string
	count int
	fired bool
}

var errCrash = errors.New("crash")

func (f *faults) write(do func() error) error {
	f.count++
	if f.count != f.at {
		return do()
	}
	f.fired = true
	switch f.how {
	case "after":
		return errors.Join(do(), errCrash)
	case "conflict":
		return apierrors.NewConflict(corev1.Resource("x"), "x", errCrash)
	}
	return errCrash
}

func (f *faults) interceptor() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return f.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return f.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return f.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

// TestSurvivesAStopAtAnyWrite creates, changes and deletes a ManagedResource, and makes each write fail once, with the
// loss of the process's memory. The result of every stage must be the same as without a fault.
func TestSurvivesAStopAtAnyWrite(t *testing.T) {
	for _, how := range []string{"before", "after", "conflict"} {
		for at, fired := 1, true; fired; at++ {
			t.Run(fmt.Sprintf("%s write %d", how, at), func(t *testing.T) {
				f := &faults{at: at, how: how}
				life(t, f)
				fired = f.fired
			})
			if at > 100 {
				t.Fatal("the life never ends")
			}
		}
	}
}

func life(t *testing.T, f *faults) {
	ctx := context.Background()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "mr", Generation: 1, UID: "mr",
	},
		Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "s"}}}}
	quiet := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(mr).WithObjects(mr,
		secret("s", map[string]string{"a": configMap("one", "") + configMap("two", "")})).Build()
	target := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testMapperApps()).Build()
	source := interceptor.NewClient(quiet, f.interceptor())

	settle := func() {
		t.Helper()
		var r *Reconciler
		calm := 0
		for range 30 {
			if r == nil {
				r = &Reconciler{Source: source, SourceReader: quiet, Target: interceptor.NewClient(target, f.interceptor()),
					Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), SyncPeriod: time.Minute}
			}
			result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: mrKey})
			if err != nil {
				if !errors.Is(err, errCrash) && !apierrors.IsConflict(err) {
					t.Fatalf("Reconcile() = %v", err)
				}
				r, calm = nil, 0 // The process restarts.
				continue
			}
			if result.RequeueAfter == 0 || result.RequeueAfter == r.SyncPeriod {
				calm++
			}
			if calm == 2 {
				return
			}
		}
		t.Fatal("does not settle")
	}
	want := func(stage string, applied bool, names ...string) {
		t.Helper()
		var list corev1.ConfigMapList
		if err := target.List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, cm := range list.Items {
			got[cm.Name] = cm.Data["a"]
		}
		for _, name := range names {
			if got[name] != "b" {
				t.Errorf("%s: %s is %q, want b", stage, name, got[name])
			}
			delete(got, name)
		}
		if len(got) > 0 {
			t.Errorf("%s: left over %v", stage, got)
		}
		err := quiet.Get(ctx, mrKey, mr)
		if applied && (err != nil || condition(mr, resourcesv1alpha1.ResourcesApplied) != "True" ||
			len(mr.Status.Resources) != len(names)) {
			t.Errorf("%s: status %+v, error %v", stage, mr.Status, err)
		}
		if !applied && !apierrors.IsNotFound(err) {
			t.Errorf("%s: the ManagedResource is there: %v", stage, err)
		}
	}

	settle()
	want("created", true, "one", "two")

	s := &corev1.Secret{}
	if err := quiet.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "s"}, s); err != nil {
		t.Fatal(err)
	}
	s.Data = secret("s", map[string]string{"a": configMap("two", "") + configMap("three", "")}).Data
	if err := quiet.Update(ctx, s); err != nil {
		t.Fatal(err)
	}
	settle()
	want("changed", true, "two", "three")

	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}, Data: map[string]string{"a": "broken"},
	}
	if err := target.Update(ctx, cm); err != nil {
		t.Fatal(err)
	}
	settle()
	want("repaired", true, "two", "three")

	if err := quiet.Delete(ctx, mr); err != nil {
		t.Fatal(err)
	}
	settle()
	want("deleted", false)
}
