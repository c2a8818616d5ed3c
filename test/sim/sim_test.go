package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/kube"
)

var ctx = context.Background()

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
}

// copier keeps a Secret for each ConfigMap. Its flaws are what simulations have to find.
type copier struct {
	client     client.Client
	blind      bool // It does not watch the Secrets.
	forgetful  bool // It remembers in memory what it has made.
	trusting   bool // It gives the Secret a name of its own if its cache shows none.
	terminal   bool // It does not try again.
	remembered map[string]bool
}

func (r *copier) setup(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named("copier").For(&corev1.ConfigMap{})
	if !r.blind {
		b = b.Watches(&corev1.Secret{}, &handler.EnqueueRequestForObject{})
	}
	return b.Complete(reconcile.AsReconciler(mgr.GetClient(), r))
}

func (r *copier) Reconcile(ctx context.Context, c *corev1.ConfigMap) (reconcile.Result, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if r.forgetful && r.remembered[c.Name] {
		return reconcile.Result{}, nil
	}
	var err error
	if r.trusting {
		var list corev1.SecretList
		if err = r.client.List(ctx, &list, client.InNamespace(c.Namespace)); err == nil && len(list.Items) == 0 {
			s.Name, s.GenerateName = "", c.Name+"-"
			err = r.client.Create(ctx, s)
		}
	} else {
		s.Data = map[string][]byte{"value": []byte(c.Data["value"])}
		err = kube.Apply(ctx, r.client, s, "copier")
	}
	if r.terminal && err != nil {
		err = reconcile.TerminalError(err)
	}
	if r.remembered == nil {
		r.remembered = map[string]bool{}
	}
	r.remembered[c.Name] = err == nil
	return reconcile.Result{}, err
}

func (r copier) test(w *World) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "x"}}
	c := w.Cluster("c", Scheme())
	c.AddNamespaces("a")
	w.Process("copier", c, func(p *Process) error {
		one := r
		one.client = p.GetClient()
		return one.setup(p)
	})
	w.Change("make", c, func(ctx context.Context, c client.Client) error { return c.Create(ctx, configMap("x")) })
	w.Change("delete the copy", c, func(context.Context, client.Client) error {
		return client.IgnoreNotFound(c.Delete(ctx, secret.DeepCopy()))
	})
	w.Change("change", c, func(context.Context, client.Client) error {
		m := configMap("x")
		return c.Edit(m, func() { m.Data = map[string]string{"value": "new"} })
	})
	w.Change("delete the copy again", c, func(context.Context, client.Client) error {
		return client.IgnoreNotFound(c.Delete(ctx, secret.DeepCopy()))
	})
	w.Always("there is one copy at most", func() error {
		var list corev1.SecretList
		if err := c.List(ctx, &list); err != nil || len(list.Items) > 1 {
			return fmt.Errorf("there are %d: %v", len(list.Items), err)
		}
		return nil
	})
	w.Faults(60)
	w.Eventually(20, "the copy is right", func() error {
		var list corev1.SecretList
		if err := c.List(ctx, &list); err != nil {
			return err
		}
		if len(list.Items) != 1 || !r.trusting && string(list.Items[0].Data["value"]) != "new" {
			return fmt.Errorf("%+v", list.Items)
		}
		return nil
	})
}

func TestRightControllersPass(t *testing.T) { Run(t, copier{}.test) }

// Each flaw is found by one of the seeds that run by default.
func TestFlawsAreFound(t *testing.T) {
	for name, r := range map[string]copier{
		"a watch is missing":           {blind: true},
		"memory stands for the server": {forgetful: true},
		"a stale cache is believed":    {trusting: true},
		"an error is the end":          {terminal: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(defaultSeeds) {
				w := run(t, seed, r.test)
				if len(w.failures) == 0 {
					continue
				}
				if again := run(t, seed, r.test); strings.Join(again.trace, "\n") != strings.Join(w.trace, "\n") {
					t.Errorf("seed %d ran differently: %s", seed, differs(w.trace, again.trace))
				}
				return
			}
			t.Error("no seed fails")
		})
	}
}

// A store answers as an API server does.
func TestStore(t *testing.T) {
	run(t, 0, func(w *World) {
		c := w.Cluster("c", Scheme())
		check := func(what string, ok bool) {
			t.Helper()
			if !ok {
				t.Error(what)
			}
		}
		check("objects need a namespace", apierrors.IsNotFound(c.Create(ctx, configMap("x"))))
		c.AddNamespaces("a")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", Finalizers: []string{"f/f"}}}
		check("a Pod is created", c.Create(ctx, pod) == nil && pod.Generation == 1 && pod.UID != "" &&
			pod.CreationTimestamp.Time.Equal(time.Now().Truncate(time.Second)))
		check("names are unique", apierrors.IsAlreadyExists(c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "p",
		}})))

		old := pod.DeepCopy()
		pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
		check("the spec is written", c.Update(ctx, pod) == nil && pod.Generation == 2 && pod.Status.Phase == "")
		check("an old version conflicts", apierrors.IsConflict(c.Update(ctx, old)))
		check("an old version conflicts in a patch that has it", apierrors.IsConflict(c.Patch(ctx, old.DeepCopy(),
			client.MergeFromWithOptions(&corev1.Pod{ObjectMeta: old.ObjectMeta, Spec: corev1.PodSpec{NodeName: "x"}},
				client.MergeFromWithOptimisticLock{}))))
		version := pod.ResourceVersion
		check("what changes nothing is no version", c.Update(ctx, pod) == nil && pod.ResourceVersion == version)
		pod.Spec.NodeName, pod.Status.Phase = "other", corev1.PodRunning
		check("the status is written apart", c.Status().Update(ctx, pod) == nil && pod.Generation == 2 &&
			pod.Spec.NodeName == "n" && pod.Status.Phase == corev1.PodRunning)

		applied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"},
			Data: map[string]string{"one": "1", "two": "2"}}
		check("apply creates", kube.Apply(ctx, c, applied, "me") == nil)
		check("a kind without a spec has no generation", applied.Generation == 0)
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"},
			Data: map[string]string{"three": "3"}}
		check("apply adds", kube.Apply(ctx, c, other, "you") == nil && len(other.Data) == 3)
		applied = configMap("m")
		applied.Data = map[string]string{"one": "1"}
		check("apply removes what its owner leaves out", kube.Apply(ctx, c, applied, "me") == nil && len(applied.Data) == 2)

		test := func(value, next string) error {
			return c.Patch(ctx, configMap("m"), client.RawPatch(types.JSONPatchType, []byte(`[
				{"op": "test", "path": "/data/one", "value": "`+value+`"},
				{"op": "replace", "path": "/data/one", "value": "`+next+`"}]`)))
		}
		check("a patch whose test fails is invalid", apierrors.IsInvalid(test("2", "3")) && c.Exists(applied) &&
			applied.Data["one"] == "1")
		check("a patch whose test succeeds is applied", test("1", "3") == nil && c.Exists(applied) &&
			applied.Data["one"] == "3")

		check("deletion waits for finalizers", c.Delete(ctx, pod) == nil && c.Exists(pod) && pod.DeletionTimestamp != nil)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		check("a namespace waits for its content", c.Delete(ctx, namespace) == nil && c.Exists(namespace))
		check("nothing comes into it any more", apierrors.IsForbidden(c.Create(ctx, configMap("late"))))
		w.act()
		check("its content goes", !c.Exists(applied) && c.Exists(pod))
		pod.Finalizers = nil
		check("the last finalizer", c.Update(ctx, pod) == nil && !c.Exists(pod))
		w.act()
		check("the namespace goes", !c.Exists(namespace))
	})
}

// The API of a kind may be missing, and its objects with it.
func TestMissingKinds(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	run(t, 0, func(w *World) {
		c := w.Cluster("c", Scheme())
		c.AddNamespaces("a")
		c.Undefine(gvk)
		var process *Process
		w.Process("p", c, func(p *Process) error { process = p; return nil })
		direct := process.In(c).Direct()
		widget := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			u.SetNamespace("a")
			u.SetName("w")
			u.SetFinalizers([]string{"f/f"})
			return u
		}
		state := func(missing bool) {
			t.Helper()
			err := direct.Get(ctx, types.NamespacedName{Namespace: "a", Name: "w"}, widget())
			_, mapErr := direct.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
			if meta.IsNoMatchError(err) != missing || meta.IsNoMatchError(mapErr) != missing {
				t.Errorf("errors are %v and %v, want the kind to be missing: %v", err, mapErr, missing)
			}
		}
		state(true)
		c.Define(gvk)
		state(false)
		if err := direct.Create(ctx, widget()); err != nil || c.Writes() != 1 {
			t.Errorf("Create() = %v, %d writes", err, c.Writes())
		}
		c.Undefine(gvk)
		state(true)
		c.Define(gvk)
		if c.Exists(widget()) {
			t.Error("an object is left without its kind")
		}
	})
}

// Panics are failures of the run, which controller-runtime would make errors of.
func TestPanicsFail(t *testing.T) {
	w := run(t, 1, func(w *World) {
		c := w.Cluster("c", Scheme())
		c.AddNamespaces("a")
		c.Add(configMap("x"))
		w.Process("p", c, func(p *Process) error {
			return ctrl.NewControllerManagedBy(p).Named("panics").For(&corev1.ConfigMap{}).Complete(
				reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { panic(errors.New("oh")) }))
		})
		w.Eventually(5, "", func() error { return nil })
	})
	if len(w.failures) == 0 || !strings.Contains(w.failures[0], "oh") {
		t.Errorf("failures = %v", w.failures)
	}
}

// Requests to something that is not an API server have the faults of those that are.
func TestCallsHaveFaults(t *testing.T) {
	seen := map[string]int{}
	Run(t, func(w *World) {
		c := w.Cluster("c", Scheme())
		var process *Process
		w.Process("caller", c, func(p *Process) error {
			process = p
			return nil
		})
		for range 20 {
			w.Change("call", c, func(context.Context, client.Client) error {
				done := false
				err := process.Call(ctx, "cloud", "make", true, func() error {
					done = true
					return nil
				})
				seen[fmt.Sprintf("done %t, error %t, crash %t", done, err != nil, w.isCrashed(process))]++
				return nil
			})
		}
		w.Faults(100)
	})
	for _, want := range []string{
		"done true, error false, crash false", "done false, error true, crash false", "done true, error true, crash false",
		"done true, error true, crash true",
	} {
		if seen[want] == 0 {
			t.Errorf("no call ended with %s: %v", want, seen)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("calls ended with %v", seen)
	}
}
