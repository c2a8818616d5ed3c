package bastion

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGykj8Nqmi5x5ifc7MlS0R1A8p1rxMWUWnIgmyNXuxVS"

func aShoot() *corev1beta1.Shoot {
	return &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "apple"},
		Spec: corev1beta1.ShootSpec{SeedName: ptr.To("blue"), Provider: corev1beta1.Provider{
			Type: "local", Workers: make([]corev1beta1.Worker, 1),
		}},
		Status: corev1beta1.ShootStatus{
			SeedName: ptr.To("blue"), TechnicalID: "shoot--dev--apple",
			LastOperation: &corev1beta1.LastOperation{
				Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
			},
		},
	}
}

func aBastion() *operationsv1alpha1.Bastion {
	return &operationsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "cli-1", Generation: 1},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef: corev1.LocalObjectReference{Name: "apple"}, SeedName: ptr.To("blue"), ProviderType: ptr.To("local"),
			SSHPublicKey: publicKey + " me@example.com",
			Ingress: []operationsv1alpha1.BastionIngressPolicy{{IPBlock: networkingv1.IPBlock{
				CIDR: "192.0.2.0/24", Except: []string{"192.0.2.1/32"},
			}}},
		},
	}
}

func TestDecide(t *testing.T) {
	type shoot = corev1beta1.Shoot
	const (
		create, reconcile     = corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeReconcile
		restore, migrate      = corev1beta1.LastOperationTypeRestore, corev1beta1.LastOperationTypeMigrate
		processing, succeeded = corev1beta1.LastOperationStateProcessing, corev1beta1.LastOperationStateSucceeded
	)
	last := func(kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState) func(*shoot) {
		return func(s *shoot) { s.Status.LastOperation = &corev1beta1.LastOperation{Type: kind, State: state} }
	}
	hibernate := func(s *shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)} }
	for name, tc := range map[string]struct {
		change func(*shoot)
		want   string
	}{
		"a Shoot":           {func(*shoot) {}, ""},
		"it is reconciled":  {last(reconcile, corev1beta1.LastOperationStateError), ""},
		"it is deleted":     {func(s *shoot) { s.DeletionTimestamp = &metav1.Time{} }, reasonDeleted},
		"it moves":          {func(s *shoot) { s.Spec.SeedName = ptr.To("red") }, reasonMoves},
		"it moves here":     {func(s *shoot) { s.Status.SeedName = ptr.To("red") }, reasonMoves},
		"it has no workers": {func(s *shoot) { s.Spec.Provider.Workers = nil }, reasonNoSSH},
		"it falls asleep":   {hibernate, reasonHibernated},
		"it wakes up":       {func(s *shoot) { s.Status.IsHibernated = true }, reasonHibernated},
		"it is new":         {func(s *shoot) { s.Status = corev1beta1.ShootStatus{} }, reasonNotComplete},
		"it is created":     {last(create, processing), reasonNotComplete},
		"it is restored":    {last(restore, processing), reasonNotComplete},
		"it was restored":   {last(restore, succeeded), ""},
		"it was migrated":   {last(migrate, succeeded), reasonNotComplete},
	} {
		t.Run(name, func(t *testing.T) {
			s, got := aShoot(), ""
			tc.change(s)
			if blocked := decide(s, "blue"); blocked != nil {
				got = blocked.reason
			}
			if got != tc.want {
				t.Errorf("the obstacle is %q, want %q", got, tc.want)
			}
		})
	}
	if blocked := decide(nil, "blue"); blocked == nil || blocked.reason != reasonNoShoot {
		t.Errorf("without a Shoot the obstacle is %v", blocked)
	}
}

func TestUserData(t *testing.T) {
	got, err := userData(`command="evil" ` + publicKey + " me\n")
	if err != nil {
		t.Fatal(err)
	}
	const line = "\nrestrict,port-forwarding,permitopen=\"*:22\",command=\"/bin/false\" " + publicKey + "\nend\n"
	if !strings.Contains(string(got), line) || strings.Contains(string(got), "evil") {
		t.Errorf("user data is\n%s\nwant the line%s", got, line)
	}
	check := exec.Command("sh", "-n")
	check.Stdin = strings.NewReader(string(got))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the shell refuses the user data: %v\n%s", err, out)
	}
	if _, err := userData("hello"); err == nil {
		t.Error("something that is no key has user data")
	}
}

// world is a garden and a seed.
type world struct {
	*Reconciler
	t    *testing.T
	next time.Duration
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1beta1.AddToScheme, extensionsv1alpha1.AddToScheme, operationsv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	garden := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&operationsv1alpha1.Bastion{}, &corev1beta1.Shoot{}).Build()
	seed := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&extensionsv1alpha1.Bastion{}).Build()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	return &world{t: t, Reconciler: &Reconciler{Garden: garden, Cache: garden, Seed: seed, Clock: clock, SeedName: "blue"}}
}

// step reconciles the Bastion, and returns its condition as "status reason". It is "" when the Bastion is gone.
func (w *world) step() string {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), &operationsv1alpha1.Bastion{ObjectMeta: aBastion().ObjectMeta})
	if err != nil {
		w.t.Fatal(err)
	}
	w.next = result.RequeueAfter
	b := w.bastion()
	if b == nil {
		return ""
	}
	c := corev1beta1.FindCondition(b.Status.Conditions, operationsv1alpha1.BastionReady)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason
}

func (w *world) bastion() *operationsv1alpha1.Bastion {
	w.t.Helper()
	b := aBastion()
	err := w.Garden.Get(w.t.Context(), client.ObjectKeyFromObject(b), b)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) object() *extensionsv1alpha1.Bastion {
	w.t.Helper()
	o := &extensionsv1alpha1.Bastion{}
	err := w.Seed.Get(w.t.Context(), client.ObjectKey{Namespace: "shoot--dev--apple", Name: "cli-1"}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// answers writes the answer of the extension.
func (w *world) answers(state corev1beta1.LastOperationState, address string) {
	w.t.Helper()
	o := w.object()
	if o == nil {
		w.t.Fatal("there is no extension Bastion")
	}
	delete(o.Annotations, extensionsv1alpha1.AnnotationOperation)
	if err := w.Seed.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	o.Status.ObservedGeneration = o.Generation
	o.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: state, LastUpdateTime: metav1.Time{Time: w.Clock.Now()},
	}
	o.Status.LastError = nil
	if state == corev1beta1.LastOperationStateError {
		o.Status.LastError = &corev1beta1.LastError{
			Description: "no quota", Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded},
		}
	}
	o.Status.Ingress = nil
	if address != "" {
		o.Status.Ingress = &corev1.LoadBalancerIngress{IP: address}
	}
	if err := w.Seed.Status().Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(name, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: the condition is %q, want %q", name, got, want)
	}
}

func TestBastionFollowsItsShoot(t *testing.T) {
	w := newWorld(t, aShoot(), aBastion())
	w.want("new", w.step(), "Progressing BastionPending")
	o := w.object()
	if o == nil || o.Spec.Type != "local" || o.Annotations[extensionsv1alpha1.AnnotationOperation] != "reconcile" {
		t.Fatalf("the extension Bastion is %+v", o)
	}
	want := []extensionsv1alpha1.BastionIngressPolicy{{IPBlock: aBastion().Spec.Ingress[0].IPBlock}}
	if diff := cmp.Diff(want, o.Spec.Ingress); diff != "" || !strings.Contains(string(o.Spec.UserData), publicKey) {
		t.Errorf("the extension Bastion has the user data\n%s\nand the ingress (-want +got):\n%s", o.Spec.UserData, diff)
	}
	w.want("not done", w.step(), "Progressing BastionPending")

	w.answers(corev1beta1.LastOperationStateError, "")
	w.want("failed", w.step(), "False BastionFailed")
	if w.next == 0 {
		t.Error("a failed request is not repeated")
	}
	codes := w.bastion().Status.Conditions[0].Codes
	if diff := cmp.Diff([]corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded}, codes); diff != "" {
		t.Errorf("codes mismatch (-want +got):\n%s", diff)
	}

	w.answers(corev1beta1.LastOperationStateSucceeded, "")
	w.want("without address", w.step(), "Progressing BastionPending")
	w.answers(corev1beta1.LastOperationStateSucceeded, "198.18.0.7")
	w.want("ready", w.step(), "True BastionReady")
	b := w.bastion()
	if b.Status.Address() != "198.18.0.7" || ptr.Deref(b.Status.ObservedGeneration, 0) != 1 {
		t.Errorf("the status is %+v", b.Status)
	}

	b.Spec.Ingress[0].IPBlock = networkingv1.IPBlock{CIDR: "192.0.2.9/32"}
	if err := w.Garden.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.want("changed", w.step(), "Progressing BastionPending")
	if got := w.object().Spec.Ingress[0].IPBlock.CIDR; got != "192.0.2.9/32" {
		t.Errorf("the extension Bastion has the range %s", got)
	}
	if got := w.bastion().Status.Address(); got != "198.18.0.7" {
		t.Errorf("a bastion that is being changed has the address %q", got)
	}

	s := aShoot()
	if err := w.Garden.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)}
	if err := w.Garden.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.want("hibernated", w.step(), "False ShootHibernated")
	if w.object() != nil || w.bastion().Status.Ingress != nil {
		t.Errorf("the hibernated Shoot has the bastion %+v at %v", w.object(), w.bastion().Status.Ingress)
	}
	s.Spec.Hibernation = nil
	if err := w.Garden.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.want("awake", w.step(), "Progressing BastionPending")

	if err := w.Garden.Delete(t.Context(), w.bastion()); err != nil {
		t.Fatal(err)
	}
	w.want("deleted", w.step(), "Progressing BastionPending")
	if w.object() != nil {
		t.Error("the extension Bastion outlives the Bastion")
	}
	w.want("gone", w.step(), "")
}

// A gardenlet of another version may render other user data, which cannot change.
func TestUserDataStays(t *testing.T) {
	w := newWorld(t, aShoot(), aBastion())
	w.step()
	o := w.object()
	o.Spec.UserData = []byte("#!/bin/sh\n# of another version\n")
	if err := w.Seed.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	b := w.bastion()
	b.Spec.Ingress[0].IPBlock = networkingv1.IPBlock{CIDR: "192.0.2.9/32"}
	if err := w.Garden.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.answers(corev1beta1.LastOperationStateSucceeded, "198.18.0.7")
	w.step()
	got := w.object()
	if string(got.Spec.UserData) != string(o.Spec.UserData) || got.Spec.Ingress[0].IPBlock.CIDR != "192.0.2.9/32" {
		t.Errorf("the extension Bastion is %+v", got.Spec)
	}
}

// The seed authorizer forbids to read what is gone, or on another seed.
func TestForbidden(t *testing.T) {
	w := newWorld(t, aShoot(), aBastion())
	w.step()
	forbidden, garden := map[string]bool{}, w.Garden.(client.WithWatch)
	w.Garden = interceptor.NewClient(garden, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if forbidden[key.Name] {
				return apierrors.NewForbidden(schema.GroupResource{}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	forbidden["apple"] = true
	w.want("the Shoot is on another seed", w.step(), "False ShootMoves")
	if w.object() != nil {
		t.Error("a Shoot of another seed has an extension Bastion")
	}
	forbidden["cli-1"] = true
	result, err := w.Reconcile(t.Context(), aBastion())
	if err != nil || result.RequeueAfter != forbiddenPeriod {
		t.Errorf("the Bastion is gone: %+v, %v", result, err)
	}
	forbidden["cli-1"], forbidden["apple"] = false, false
	w.want("the API server did not know it yet", w.step(), "Progressing BastionPending")
}

func TestBastionsOfOthers(t *testing.T) {
	b := aBastion()
	b.Spec.SeedName = ptr.To("red")
	w := newWorld(t, aShoot(), b)
	w.want("of another seed", w.step(), "none")
	if w.object() != nil || len(w.bastion().Finalizers) > 0 {
		t.Error("the Bastion of another seed is acted upon")
	}

	w = newWorld(t, aBastion())
	w.want("without Shoot", w.step(), "False ShootNotFound")
	if err := w.Garden.Delete(t.Context(), w.bastion()); err != nil {
		t.Fatal(err)
	}
	w.want("gone without Shoot", w.step(), "")
}
