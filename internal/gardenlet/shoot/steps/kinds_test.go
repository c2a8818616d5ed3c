package steps

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
