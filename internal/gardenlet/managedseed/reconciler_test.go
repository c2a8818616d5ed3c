package managedseed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/pki"
)

const controlPlane = "shoot--garden--child"

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a garden with a ManagedSeed, and a seed.
type world struct {
	t            *testing.T
	garden, seed client.WithWatch
	issuer       *issuer
	// writes counts the writes of the reconciler; stopAt is the one after which all fail, 0 for none.
	writes, stopAt int
}

// issuer issues certificates with the second request.
type issuer struct {
	requested, issued int
	pair              *pki.KeyPair
	refused           error
}

func (i *issuer) Forget(string) { i.pair = nil }

func (i *issuer) Certificate(_ context.Context, seed string, _ *time.Duration) (*pki.KeyPair, error) {
	if i.refused != nil {
		return nil, i.refused
	}
	if i.pair != nil {
		return i.pair, nil
	}
	if i.requested == i.issued {
		i.requested++
		return nil, nil
	}
	i.issued++
	ca, err := pki.NewCA("garden", testingclock.NewFakePassiveClock(now))
	if err != nil {
		return nil, err
	}
	i.pair, err = ca.Issue(pki.Request{CommonName: seed, Usage: pki.Client, Validity: time.Hour})
	return i.pair, err
}

func (i *issuer) Garden(context.Context) (pki.Kubeconfig, error) {
	return pki.Kubeconfig{Server: "https://garden.example"}, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), corev1beta1.AddToScheme(s),
		seedmanagementv1alpha1.AddToScheme(s), resourcesv1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	m := managed("{" + ownSeed + "}")
	m.Generation = 1
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "child"}}
	shoot.Status.TechnicalID, shoot.Status.SeedName = controlPlane, new("parent")
	w := &world{t: t, issuer: &issuer{}}
	w.garden = fake.NewClientBuilder().WithScheme(s).WithObjects(m, shoot).
		WithStatusSubresource(m, shoot, &corev1beta1.Seed{}).Build()
	w.seed = fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&resourcesv1alpha1.ManagedResource{}).Build()
	return w
}

// reconcile makes one step.
func (w *world) reconcile() (time.Duration, error) {
	w.t.Helper()
	m := &seedmanagementv1alpha1.ManagedSeed{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "child"}}
	r := &Reconciler{
		Garden: w.counted(w.garden), Seed: w.counted(w.seed), Events: events.NewFakeRecorder(100),
		Clock: testingclock.NewFakePassiveClock(now), SeedName: "parent", Parent: parent(w.t), Server: w.issuer,
		Issuer: w.issuer,
	}
	result, err := r.Reconcile(w.t.Context(), m)
	return result.RequeueAfter, err
}

var errStopped = errors.New("the process has stopped")

// counted counts writes, and fails from one on.
func (w *world) counted(c client.WithWatch) client.WithWatch {
	write := func(do func() error) error {
		if w.stopAt > 0 && w.writes >= w.stopAt {
			return errStopped
		}
		w.writes++
		return do()
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write(func() error { return c.Apply(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			return write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

func (w *world) managed() *seedmanagementv1alpha1.ManagedSeed {
	w.t.Helper()
	m := &seedmanagementv1alpha1.ManagedSeed{}
	err := w.garden.Get(w.t.Context(), client.ObjectKey{Namespace: "garden", Name: "child"}, m)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return m
}

// condition returns a condition as "status reason message".
func (w *world) condition(kind corev1beta1.ConditionType) string {
	w.t.Helper()
	c := corev1beta1.FindCondition(w.managed().Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}

func (w *world) wantRegistered(want string) {
	w.t.Helper()
	if got := w.condition(seedmanagementv1alpha1.SeedRegistered); !strings.HasPrefix(got, want) {
		w.t.Errorf("SeedRegistered is %q, want %q", got, want)
	}
}

// shootSucceeds reports the creation of the Shoot as done.
func (w *world) shootSucceeds() {
	w.t.Helper()
	shoot := &corev1beta1.Shoot{}
	w.must(w.garden.Get(w.t.Context(), client.ObjectKey{Namespace: "garden", Name: "child"}, shoot))
	shoot.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
	}
	w.must(w.garden.Status().Update(w.t.Context(), shoot))
}

// applied does what the resource-manager of the Shoot does.
func (w *world) applied() {
	w.t.Helper()
	mr, secret := &resourcesv1alpha1.ManagedResource{}, &corev1.Secret{}
	key := client.ObjectKey{Namespace: controlPlane, Name: resourceName}
	w.must(w.seed.Get(w.t.Context(), key, mr))
	key.Name = managedresource.SecretName(resourceName)
	w.must(w.seed.Get(w.t.Context(), key, secret))
	mr.Status.ObservedGeneration = mr.Generation
	mr.Status.SecretsDataChecksum = new(managedresource.Checksum(secret))
	mr.Status.Conditions = nil
	for kind, status := range map[corev1beta1.ConditionType]corev1beta1.ConditionStatus{
		resourcesv1alpha1.ResourcesApplied: "True", resourcesv1alpha1.ResourcesHealthy: "True",
		resourcesv1alpha1.ResourcesProgressing: "False",
	} {
		mr.Status.Conditions = append(mr.Status.Conditions, corev1beta1.Condition{Type: kind, Status: status})
	}
	w.must(w.seed.Status().Update(w.t.Context(), mr))
}

// registers does what the new gardenlet does.
func (w *world) registers() {
	w.t.Helper()
	w.must(w.garden.Create(w.t.Context(), &corev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: "child", Finalizers: []string{corev1beta1.FinalizerName}},
	}))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) step() time.Duration {
	w.t.Helper()
	after, err := w.reconcile()
	w.must(err)
	return after
}

func TestManagedSeedFromBeginToEnd(t *testing.T) {
	w := newWorld(t)
	if after := w.step(); after != 0 {
		t.Errorf("looks again after %s, want to be called when the Shoot changes", after)
	}
	if got := w.condition(seedmanagementv1alpha1.ManagedSeedShootReconciled); !strings.HasPrefix(got,
		"False Reconciling") {
		t.Errorf("ShootReconciled is %q", got)
	}
	w.shootSucceeds()
	w.step()
	w.wantRegistered("False Reconciling The garden has not issued the gardenlet's certificate yet.")
	w.step()
	w.wantRegistered("False Reconciling ManagedResource gardenlet has no condition ResourcesApplied yet")
	w.applied()
	if after := w.step(); after != waitPeriod {
		t.Errorf("looks again after %s", after)
	}
	w.wantRegistered(`False Reconciling The gardenlet runs. It has not registered Seed "child" yet.`)
	w.registers()
	if after := w.step(); after != syncPeriod {
		t.Errorf("looks again after %s", after)
	}
	w.wantRegistered("True Reconciled")
	if w.issuer.issued != 1 {
		t.Errorf("%d certificates were issued, want 1", w.issuer.issued)
	}

	m := w.managed()
	m.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationRenewKubeconfig}
	w.must(w.garden.Update(t.Context(), m))
	w.step()
	w.wantRegistered(`True Reconciled Seed "child" is registered. Its gardenlet is being changed: The garden has not`)
	w.step()
	if m := w.managed(); w.issuer.issued != 2 || len(m.Annotations) > 0 {
		t.Errorf("%d certificates were issued, annotations are %v", w.issuer.issued, m.Annotations)
	}

	w.must(w.garden.Delete(t.Context(), w.managed()))
	w.step()
	w.step()
	w.wantRegistered(`False Deleting Seed "child" is being deleted.`)
	seed := &corev1beta1.Seed{}
	w.must(w.garden.Get(t.Context(), client.ObjectKey{Name: "child"}, seed))
	if seed.DeletionTimestamp == nil {
		t.Fatal("the Seed is not being deleted")
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	key := client.ObjectKey{Namespace: controlPlane, Name: resourceName}
	if err := w.seed.Get(t.Context(), key, mr); err != nil {
		t.Errorf("the gardenlet was removed before its Seed: %v", err)
	}
	seed.Finalizers = nil
	w.must(w.garden.Update(t.Context(), seed))
	w.step()
	w.step()
	if w.managed() != nil {
		t.Errorf("the ManagedSeed is still there: %+v", w.managed().Status)
	}
	secrets := &corev1.SecretList{}
	w.must(w.seed.List(t.Context(), secrets))
	if len(secrets.Items) > 0 {
		t.Errorf("there is still Secret %s", secrets.Items[0].Name)
	}
}

func TestProblemsAreReported(t *testing.T) {
	w := newWorld(t)
	w.shootSucceeds()
	w.issuer.refused = errors.New("denied: not on this Seed")
	if _, err := w.reconcile(); err == nil {
		t.Error("the refusal is not retried")
	}
	w.wantRegistered("False ReconcileError denied: not on this Seed")
}

// TestOthersAreLeftAlone: the Shoot is on another Seed.
func TestOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	shoot := &corev1beta1.Shoot{}
	w.must(w.garden.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: "child"}, shoot))
	shoot.Status.SeedName = new("another")
	w.must(w.garden.Status().Update(t.Context(), shoot))
	w.step()
	if w.writes > 0 {
		t.Errorf("there were %d writes", w.writes)
	}
}

// TestStopAfterEachWrite: wherever the gardenlet stops, the next one completes the installation and the removal.
func TestStopAfterEachWrite(t *testing.T) {
	for stopAt := 1; ; stopAt++ {
		w := newWorld(t)
		w.shootSucceeds()
		w.stopAt = stopAt
		stopped := 0
		until := func(what string, done func() bool) {
			t.Helper()
			for range 20 {
				if done() {
					return
				}
				if _, err := w.reconcile(); errors.Is(err, errStopped) {
					stopped++
					w.stopAt = 0
					w.issuer.requested = w.issuer.issued // The key of the open request is lost.
				} else if err != nil {
					t.Fatalf("stop at write %d: %v", stopAt, err)
				}
				mr := &resourcesv1alpha1.ManagedResource{}
				if w.seed.Get(t.Context(), client.ObjectKey{Namespace: controlPlane, Name: resourceName}, mr) == nil {
					w.applied()
				}
			}
			t.Fatalf("stop at write %d: not %s", stopAt, what)
		}
		w.registers()
		until("registered", func() bool {
			return strings.HasPrefix(w.condition(seedmanagementv1alpha1.SeedRegistered), "True")
		})
		w.must(w.garden.Delete(t.Context(), w.managed()))
		seed := &corev1beta1.Seed{}
		until("gone", func() bool {
			if err := w.garden.Get(t.Context(), client.ObjectKey{Name: "child"}, seed); err == nil &&
				seed.DeletionTimestamp != nil {
				seed.Finalizers = nil
				w.must(w.garden.Update(t.Context(), seed))
			}
			return w.managed() == nil
		})
		if stopped == 0 {
			return // There are fewer writes.
		}
	}
}
