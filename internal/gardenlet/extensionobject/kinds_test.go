package extensionobject

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// TestKindsAreThoseOfTheContract: a kind that is added to the API has to be added to the table, or to the exceptions
// here.
func TestKindsAreThoseOfTheContract(t *testing.T) {
	elsewhere := []string{
		extensionsv1alpha1.BackupBucketKind, extensionsv1alpha1.BackupEntryKind, // Cluster-scoped.
		extensionsv1alpha1.BastionKind, // Belongs to a Bastion of the garden, not to the Shoot.
	}
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name := range scheme.KnownTypes(extensionsv1alpha1.SchemeGroupVersion) {
		o, err := scheme.New(extensionsv1alpha1.SchemeGroupVersion.WithKind(name))
		if err != nil {
			t.Fatal(err)
		}
		_, extends := o.(extensionsv1alpha1.Object)
		want := extends && !slices.Contains(elsewhere, name)
		if got := slices.ContainsFunc(Kinds, func(k Kind) bool { return k.Name == name }); got != want {
			t.Errorf("kind %s: in the table: %t (want %t)", name, got, want)
		}
	}
	for _, kind := range Kinds {
		if got := KindOf(kind.New()); got != kind.Name {
			t.Errorf("kind %s makes objects of kind %s", kind.Name, got)
		}
		if got := reflect.TypeOf(kind.NewList()).Elem().Name(); got != kind.Name+"List" {
			t.Errorf("kind %s makes lists of kind %s", kind.Name, got)
		}
	}
}
