package v1alpha1

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestExtensionsMayRegisterEveryKind compares the scheme with what a ControllerRegistration may name.
func TestExtensionsMayRegisterEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	want := []string{"SelfHostedShootExposure"} // Charts may register it; it is not part of the contract.
	for kind := range scheme.KnownTypes(SchemeGroupVersion) {
		o, err := scheme.New(SchemeGroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if _, extends := o.(Object); extends {
			want = append(want, kind)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, corev1beta1.ExtensionKinds()); diff != "" {
		t.Errorf("ExtensionKinds() mismatch (-want +got):\n%s", diff)
	}
}
