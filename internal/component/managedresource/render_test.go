package managedresource

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestChecksumDistinguishesData(t *testing.T) {
	seen := map[string]bool{Checksum(secret("s", map[string]string{"x": "1", "y": "2"})): true}
	for _, s := range []*corev1.Secret{
		secret("s", map[string]string{"x": "1"}), secret("s", map[string]string{"x": "12", "y": ""}),
		secret("s", map[string]string{"x": "1", "y": "3"}),
		secret("s", map[string]string{"x": "1", "z": "2"}), secret("t", map[string]string{"x": "1", "y": "2"}),
	} {
		sum := Checksum(s)
		if seen[sum] {
			t.Errorf("%v has the checksum of other data", s.Data)
		}
		seen[sum] = true
	}
}

func TestReady(t *testing.T) {
	ready := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 2}}
	ready.Status.ObservedGeneration, ready.Status.SecretsDataChecksum = 2, ptr.To("sum")
	for kind, status := range map[string]corev1beta1.ConditionStatus{
		resourcesv1alpha1.ResourcesApplied: "True", resourcesv1alpha1.ResourcesHealthy: "True",
		resourcesv1alpha1.ResourcesProgressing: "False",
	} {
		ready.Status.Conditions = append(ready.Status.Conditions,
			corev1beta1.Condition{Type: corev1beta1.ConditionType(kind), Status: status})
	}
	for name, tc := range map[string]struct {
		change   func(*resourcesv1alpha1.ManagedResource)
		checksum string
		want     bool
	}{
		"everything is as it should be":  {func(*resourcesv1alpha1.ManagedResource) {}, "sum", true},
		"the checksum is not requested":  {func(*resourcesv1alpha1.ManagedResource) {}, "", true},
		"other content has been applied": {func(*resourcesv1alpha1.ManagedResource) {}, "newer", false},
		"a newer spec has not been observed": {
			func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation = 3 }, "sum", false,
		},
		"a condition is missing": {
			func(mr *resourcesv1alpha1.ManagedResource) { mr.Status.Conditions = mr.Status.Conditions[1:] }, "sum", false,
		},
		"a condition has another status": {func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions[0].Status = corev1beta1.ConditionProgressing
		}, "sum", false},
	} {
		mr := ready.DeepCopy()
		tc.change(mr)
		if got, why := Ready(mr, tc.checksum); got != tc.want || got == (why != "") {
			t.Errorf("%s: Ready() = %t, %q, want %t", name, got, why, tc.want)
		}
	}
}

// TestLargeObjectsAreCompressed: up to half of what a Secret holds is readable text, and what has been stored that way
// stays as it is.
func TestLargeObjectsAreCompressed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), resourcesv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 5<<18)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	text := func(bytes int) string { return strings.Repeat("a word ", bytes/7) }
	for name, tc := range map[string]struct {
		content string
		key     string // Empty: it is refused.
	}{
		"small":                         {text(1000), "objects.yaml"},
		"nearly half a Secret":          {text(400 << 10), "objects.yaml"},
		"more than half a Secret":       {text(520 << 10), "objects.yaml.br"},
		"two Secrets":                   {text(2 << 20), "objects.yaml.br"},
		"too large, even if compressed": {hex.EncodeToString(random), ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}, Data: map[string]string{"a": tc.content},
			}
			stored, _, err := ForSeed(scheme, "garden", "x", object)
			if tc.key == "" {
				if err == nil || !strings.Contains(err.Error(), "(at most 1048576)") {
					t.Errorf("ForSeed() = %v, want the largest size", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			again, _, err := ForSeed(scheme, "garden", "x", object)
			if err != nil || Checksum(stored) != Checksum(again) {
				t.Errorf("the same objects are stored differently (error %v)", err)
			}
			want, err := Encode(scheme, []client.Object{object})
			if err != nil {
				t.Fatal(err)
			}
			got, found := stored.Data[tc.key]
			if !found || len(stored.Data) != 1 {
				t.Fatalf("keys are %v, want %s", slices.Collect(maps.Keys(stored.Data)), tc.key)
			}
			if strings.HasSuffix(tc.key, ".br") {
				if got, err = io.ReadAll(brotli.NewReader(bytes.NewReader(got))); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes are stored, want %d", len(got), len(want))
			}
		})
	}
}
