package steps

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// oneOfEachKind is a control plane with one extension object of each kind.
func oneOfEachKind(t *testing.T) (*Scope, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := testScope("pool")
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, kind := range extensionobject.Kinds {
		o := kind.New()
		o.SetName("a")
		o.SetNamespace(s.Namespace)
		o.SetFinalizers([]string{"extension"})
		builder.WithObjects(o)
	}
	s.Seed, s.SeedApplied, s.Clock = builder.Build(), &kube.ApplyCache{}, testclock.NewFakePassiveClock(time.Unix(1e9, 0))
	return s, s.Seed
}

// annotated returns the kinds whose object has an annotation with a value.
func annotated(t *testing.T, c client.Client, namespace, key, value string) string {
	t.Helper()
	objects, err := extensionobject.List(t.Context(), c, namespace, extensionobject.Kinds...)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		if o.GetAnnotations()[key] == value {
			kinds = append(kinds, extensionobject.KindOf(o))
		}
	}
	return strings.Join(kinds, " ")
}

// allKinds are the names of the table.
func allKinds() string {
	var names []string
	for _, kind := range extensionobject.Kinds {
		names = append(names, kind.Name)
	}
	return strings.Join(names, " ")
}

func TestEveryKindIsMigrated(t *testing.T) {
	s, c := oneOfEachKind(t)
	for _, step := range []func(context.Context, *Scope) (flow.Outcome, error){
		WorkerMigrated.Ensure, OthersMigrated.Ensure, InfrastructureMigrated.Ensure,
	} {
		if outcome, err := step(t.Context(), s); err != nil || outcome.IsDone() {
			t.Errorf("outcome %v, error %v", outcome, err)
		}
	}
	if got := annotated(t, c, s.Namespace, extensionsv1alpha1.AnnotationOperation,
		extensionsv1alpha1.OperationMigrate); got != allKinds() {
		t.Errorf("migrated: %s", got)
	}
}

func TestEveryKindIsDeletedByForce(t *testing.T) {
	s, c := oneOfEachKind(t)
	if _, err := ForceExtensions.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := annotated(t, c, s.Namespace, extensionsv1alpha1.AnnotationConfirmForceDeletion, "true"); got != allKinds() {
		t.Errorf("deleted: %s", got)
	}
}

func TestEveryKindIsDroppedWithALeftover(t *testing.T) {
	s, c := oneOfEachKind(t)
	for range 2 {
		if _, err := LeftoverObjectsDropped.Ensure(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if objects, err := extensionobject.List(t.Context(), c, s.Namespace, extensionobject.Kinds...); len(objects) > 0 {
		t.Errorf("left: %v, error %v", objects, err)
	}
}

func TestExtensionsHaveTheTimeOfTheirRegistration(t *testing.T) {
	s, c := oneOfEachKind(t)
	s.Registered = []corev1beta1.ControllerRegistration{{Spec: corev1beta1.ControllerRegistrationSpec{
		Resources: []corev1beta1.ControllerResource{{
			Kind: "Extension", Type: "slow", ReconcileTimeout: &metav1.Duration{Duration: 20 * time.Minute},
			AutoEnable: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot},
		}},
	}}}
	clock := testclock.NewFakePassiveClock(s.Clock.Now())
	s.Clock, s.Started = clock, clock.Now().Add(-time.Second)
	opts := flow.Options{Clock: clock, Timers: &flow.Timers{}}
	for _, pass := range []struct {
		later  time.Duration
		failed string
	}{
		{0, ""}, {time.Second, ""}, {20 * time.Minute, ""},
		{time.Second, "still not done after 20m0s: Extension slow has not been observed by its extension yet"},
	} {
		clock.SetTime(clock.Now().Add(pass.later))
		result, failed := flow.Run(t.Context(), flow.New(ExtensionsAfterKubeAPIServer), s, opts), ""
		for _, f := range result.Failed {
			failed += f.Err.Error()
		}
		if failed != pass.failed {
			t.Errorf("at %s: error %q, want %q", clock.Now().Sub(s.Started), failed, pass.failed)
		}
		o := &extensionsv1alpha1.Extension{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "slow"}, o); err != nil {
			t.Fatal(err)
		}
		if o.Generation == 0 { // The fake client counts none.
			o.Generation = 1
			if err := c.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
}
