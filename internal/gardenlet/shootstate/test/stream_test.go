package test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/test/env"
)

func reference(name string) extensionsv1alpha1.NamedResourceReference {
	return extensionsv1alpha1.NamedResourceReference{
		Name: name, ResourceRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: name},
	}
}

func TestStateFollowsTheSeed(t *testing.T) {
	w := newWorld(t)
	w.pass()
	if w.state() != nil {
		t.Fatal("there is a ShootState of an empty namespace")
	}
	referenced := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: "terraform"}, Data: map[string]string{"k": "v"},
	}
	w.must(w.Client.Create(w.ctx, referenced))
	ca := w.persist("ca", "one")
	infra := w.infrastructure(`{"vpc":"1"}`, reference("terraform"))
	w.machines(2)
	w.pass()
	state := w.state()
	want := []string{"secret ca", "machine-state machine-state", `Infrastructure {"vpc":"1"}`, "ConfigMap terraform"}
	if diff := cmp.Diff(want, entries(state)); diff != "" {
		t.Fatalf("entries mismatch (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(state); owner == nil || owner.UID != w.shoot.UID {
		t.Errorf("controller is %+v, want the Shoot", owner)
	}
	if got, want := state.Annotations[corev1beta1.AnnotationTimestamp],
		w.clock.Now().UTC().Format(time.RFC3339); got != want {
		t.Errorf("timestamp is %q, want %q", got, want)
	}
	w.unchanged("nothing has happened", w.pass)
	w.unchanged("a new gardenlet compares", func() { w.restart(); w.pass() })

	w.setState(infra, `{"vpc":"2"}`, reference("terraform"))
	w.persist("ssh", "two")
	w.must(w.Client.Delete(w.ctx, ca))
	machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: "pool-1-0"}}
	w.must(w.Client.Delete(w.ctx, machine))
	w.pass()
	want = []string{"machine-state machine-state", "secret ssh", `Infrastructure {"vpc":"2"}`, "ConfigMap terraform"}
	if diff := cmp.Diff(want, entries(w.state())); diff != "" {
		t.Fatalf("entries after changes mismatch (-want +got):\n%s", diff)
	}
	w.setState(infra, "")
	w.pass()
	if diff := cmp.Diff(want[:2], entries(w.state())); diff != "" {
		t.Fatalf("entries without state mismatch (-want +got):\n%s", diff)
	}
}

func TestChangesOfOthersAreSeen(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	w.pass()
	spoil := func() {
		w.must(w.Client.Patch(w.ctx, w.state(),
			client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/gardener/0"}]`))))
	}
	t.Run("with the next write", func(t *testing.T) {
		spoil()
		w.persist("ssh", "two")
		w.pass()
		if got := len(w.state().Spec.Gardener); got != 2 {
			t.Errorf("there are %d Secrets, want 2", got)
		}
	})
	t.Run("or after a while", func(t *testing.T) {
		spoil()
		w.clock.Step(syncPeriod)
		w.pass()
		if got := len(w.state().Spec.Gardener); got != 2 {
			t.Errorf("there are %d Secrets, want 2", got)
		}
	})
	t.Run("also when it was deleted", func(t *testing.T) {
		confirm := []byte(`{"metadata":{"annotations":{"` + corev1beta1.AnnotationConfirmationDeletion + `":"true"}}}`)
		state := w.state()
		w.must(w.Client.Patch(w.ctx, state, client.RawPatch(types.MergePatchType, confirm)))
		w.must(w.Client.Delete(w.ctx, state))
		w.clock.Step(syncPeriod)
		w.pass()
		if state := w.state(); state == nil || len(state.Spec.Gardener) != 2 {
			t.Errorf("the ShootState is %+v, want 2 Secrets", state)
		}
	})
}

func TestRestoresAreNotDisturbed(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	infra := w.infrastructure(`{"vpc":"1"}`)
	w.operation("Restore", "Succeeded")
	w.pass()
	for _, o := range []corev1beta1.LastOperation{
		{Type: "Migrate", State: "Succeeded"}, {Type: "Restore", State: "Processing"}, {Type: "Restore", State: "Error"},
	} {
		w.operation(o.Type, o.State)
		w.unchanged(fmt.Sprintf("%s is %s", o.Type, o.State), func() {
			w.setState(infra, "")
			w.restart()
			w.pass()
		})
	}
	w.setState(infra, `{"vpc":"2"}`)
	w.operation("Restore", "Succeeded")
	w.pass()
	if got := string(w.state().Spec.Extensions[0].State.Raw); got != `{"vpc":"2"}` {
		t.Errorf("state after the restore is %s", got)
	}
}

// The seed authorizer refuses the read of a Shoot that does not exist.
func TestDeletedShootIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	w.pass()
	confirm := []byte(`{"metadata":{"annotations":{"` + corev1beta1.AnnotationConfirmationDeletion + `":"true"}}}`)
	w.must(w.Client.Patch(w.ctx, w.shoot, client.RawPatch(types.MergePatchType, confirm)))
	w.must(w.Client.Delete(w.ctx, w.shoot))
	key := client.ObjectKeyFromObject(w.shoot)
	env.Eventually(t, "the gardenlet may not read the deleted Shoot", func() (bool, error) {
		err := w.garden.Get(w.ctx, key, &corev1beta1.Shoot{})
		return apierrors.IsForbidden(err), err // Until the seed authorizer has seen the deletion, it is not found.
	})
	w.pass()
}

func TestNamespaceThatLostEverythingIsNotSaved(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	w.pass()
	w.unchanged("all Secrets are gone", func() {
		w.must(w.Client.DeleteAllOf(w.ctx, &corev1.Secret{}, client.InNamespace(w.namespace())))
		w.pass()
	})
	if got := <-w.events.Events; !strings.Contains(got, shootstate.EventKept) {
		t.Errorf("event is %q, want %s", got, shootstate.EventKept)
	}
}

func TestMissingResourcesStay(t *testing.T) {
	w := newWorld(t)
	referenced := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: "terraform"}}
	w.must(w.Client.Create(w.ctx, referenced))
	w.infrastructure(`{}`, reference("terraform"))
	w.pass()
	w.must(w.Client.Delete(w.ctx, referenced))
	w.unchanged("the object that the state refers to is gone", w.pass)
	if got := <-w.events.Events; !strings.Contains(got, "ConfigMap terraform") {
		t.Errorf("event is %q, want the name", got)
	}
}

// A stop after any write, or an error in spite of a successful write, loses nothing.
func TestStopsAndLostAnswers(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	lost := apierrors.NewTimeoutError("the answer is lost", 1)
	fail := true
	answer := func(err error) error {
		if fail && err == nil {
			fail = false
			return lost
		}
		return err
	}
	w.garden = interceptor.NewClient(withWatch(t, w), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return answer(c.Create(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return answer(c.Patch(ctx, o, p, opts...))
		},
	})
	w.restart()
	for i, name := range []string{"", "b", "c"} {
		if name != "" {
			w.persist(name, "x")
		}
		fail = true
		w.clock.Step(time.Minute)
		if err := w.tryPass(); err == nil {
			t.Fatal("the lost response is no error")
		}
		w.unchanged("everything was written", w.pass)
		if got := len(w.state().Spec.Gardener); got != i+1 {
			t.Errorf("there are %d Secrets, want %d", got, i+1)
		}
	}
}

func withWatch(t *testing.T, w *world) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(w.As(corev1beta1.SeedUserPrefix+w.seed.Name, corev1beta1.SeedsGroup),
		client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A migration saves everything once; objects that it removes afterwards stay in the garden.
func TestSealedStateIsNotEmptied(t *testing.T) {
	w := newWorld(t)
	w.persist("ca", "one")
	infra := w.infrastructure(`{"vpc":"1"}`)
	w.machines(1)
	w.pass()
	w.operation("Migrate", "Processing")
	w.setStatus(func(s *corev1beta1.ShootStatus) { s.MigrationStartTime = &metav1.Time{Time: w.clock.Now()} })
	w.setState(infra, `{"vpc":"2"}`)
	seal := func() {
		t.Helper()
		if saved, err := w.r.States.Seal(w.ctx, w.shoot); err != nil || !saved {
			t.Fatalf("Seal() = %t, %v, want true", saved, err)
		}
	}
	seal()
	if got := entries(w.state())[2]; got != `Infrastructure {"vpc":"2"}` {
		t.Fatalf("saved was %s", got)
	}
	w.unchanged("the namespace is emptied", func() {
		w.must(w.Client.Delete(w.ctx, infra))
		w.must(w.Client.DeleteAllOf(w.ctx, &machinev1alpha1.Machine{}, client.InNamespace(w.namespace())))
		w.pass()
		seal()
		w.restart()
		seal()
		w.pass()
	})
	late := w.infrastructure(`{"late":"1"}`)
	for range 2 { // It can be repeated.
		if saved, err := w.r.States.SealLast(w.ctx, w.shoot); err != nil || !saved {
			t.Fatalf("SealLast() = %t, %v, want true", saved, err)
		}
		if got := entries(w.state())[2]; got != `Infrastructure {"late":"1"}` {
			t.Fatalf("saved at last was %s", got)
		}
		w.setState(late, `{"late":"2"}`)
	}
	seal() // It does not undo SealLast.
	w.restart()
	w.pass()
	if got := entries(w.state())[2]; got != `Infrastructure {"late":"1"}` {
		t.Fatalf("saved at last was %s", got)
	}
	saved, err := shootstate.Load(w.ctx, w.garden, w.shoot)
	w.must(err)
	if saved.CompleteFrom() != w.seed.Name {
		t.Errorf("CompleteFrom() = %q, want %q", saved.CompleteFrom(), w.seed.Name)
	}
	w.operation("Restore", "Succeeded")
	w.pass()
	if saved, err = shootstate.Load(w.ctx, w.garden, w.shoot); err != nil || saved.CompleteFrom() != "" {
		t.Errorf("CompleteFrom() after the restore = %q, %v, want none", saved.CompleteFrom(), err)
	}
	w.operation("Migrate", "Succeeded")
	if _, err := w.r.States.Seal(w.ctx, w.shoot); err == nil {
		t.Error("Seal() of a Shoot that has left succeeds")
	}
}

func TestLargeStates(t *testing.T) {
	const mib = 1 << 20
	w := newWorld(t)
	w.persist("ca", "one")
	var objects []extensionsv1alpha1.Object
	for i := range 19 { // An object of the seed has at most 1.5 MiB.
		o := &extensionsv1alpha1.Extension{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: fmt.Sprintf("e%d", i)},
			Spec:       extensionsv1alpha1.ExtensionSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}},
		}
		w.must(w.Client.Create(w.ctx, o))
		w.setState(o, text("x", mib))
		objects = append(objects, o)
	}
	began := time.Now()
	w.pass()
	t.Logf("%d MiB saved in %s", size(w.state())/mib, time.Since(began).Round(time.Millisecond))
	w.restart()
	w.unchanged("a new gardenlet compares", w.pass)

	w.setState(objects[7], text("s", 5))
	w.persist("ssh", "two")
	began = time.Now()
	outcome, err := w.r.States.Save(w.ctx, w.shoot)
	for apierrors.IsTimeout(err) { // As in pass.
		outcome, err = w.r.States.Save(w.ctx, w.shoot)
	}
	w.must(err)
	t.Logf("two changes of %d MiB saved with %d bytes in %s", outcome.Bytes/mib, outcome.Written,
		time.Since(began).Round(time.Millisecond))
	if outcome.Written == 0 || outcome.Written > 2000 {
		t.Errorf("the request has %d bytes, want less than 2000", outcome.Written)
	}
	w.setState(objects[7], text("x", mib))
	w.setState(objects[8], text("y", mib+mib/5))
	for i := range 2 {
		o := &extensionsv1alpha1.Network{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: fmt.Sprintf("n%d", i)},
			Spec: extensionsv1alpha1.NetworkSpec{
				DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, PodCIDR: "10.0.0.0/16", ServiceCIDR: "10.1.0.0/16",
			},
		}
		w.must(w.Client.Create(w.ctx, o))
		w.setState(o, text("z", mib-i))
	}
	w.unchanged("the state is too large", w.pass)
	if got := <-w.events.Events; !strings.Contains(got, "at most 20971520") || !strings.Contains(got, "Extension e8") {
		t.Errorf("event is %q, want the largest entry", got)
	}
}

// text is a state of n bytes.
func text(character string, n int) string { return `{"text":"` + strings.Repeat(character, n) + `"}` }

func size(s *corev1beta1.ShootState) int {
	n := 0
	for _, e := range s.Spec.Extensions {
		n += len(e.State.Raw)
	}
	return n
}
