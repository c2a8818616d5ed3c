package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRegionDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"eu-west-1", "eu-west-1", 0},
		{"eu-west-1", "eu-central-1", 2},
		{"eu-west-2", "eu-west-1", 2},
		{"westeurope", "northeurope", 2},
		{"region-a", "region-b", 2},
		{"europe-north1", "europe-west3", 4},
		{"eastus", "westus2", 4},
		{"eu-de-1", "eu-west-1", 5},
		{"us-east-1", "eu-west-1", 6},
		{"ap-southeast-1", "ap-south-1", 8},
		{"europe", "asia", 12},
		{"zürich", "zurich", 2},           // Characters count, not bytes.
		{"north-north", "north-south", 4}, // Only the first orientation is replaced.
	} {
		if got := RegionDistance(tc.a, tc.b); got != tc.want {
			t.Errorf("RegionDistance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if forth, back := RegionDistance(tc.a, tc.b), RegionDistance(tc.b, tc.a); forth != back {
			t.Errorf("RegionDistance(%q, %q) = %d but %d the other way", tc.a, tc.b, forth, back)
		}
	}
}

func TestDistances(t *testing.T) {
	config := func(name, profiles string, data map[string]string) corev1.ConfigMap {
		return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "garden", Labels: map[string]string{"scheduling.gardener.cloud/purpose": "region-config"},
			Annotations: map[string]string{"scheduling.gardener.cloud/cloudprofiles": profiles},
		}, Data: data}
	}
	elsewhere := config("a", "local", map[string]string{"eu": "us: 9"})
	elsewhere.Namespace = "other"
	for name, tc := range map[string]struct {
		configs []corev1.ConfigMap
		want    map[string]int
		fails   bool
	}{
		"none": {},
		"of another profile": {configs: []corev1.ConfigMap{
			config("a", "aws,gcp", map[string]string{"eu": "us: 1"}),
		}},
		"in another namespace": {configs: []corev1.ConfigMap{elsewhere}},
		"one of several profiles": {configs: []corev1.ConfigMap{
			config("a", "aws, local", map[string]string{"eu": "us: 1"}),
		}, want: map[string]int{"us": 1}},
		"the first by name": {configs: []corev1.ConfigMap{
			config("b", "local", map[string]string{"eu": "us: 2"}), config("a", "local", map[string]string{"eu": "us: 1"}),
		}, want: map[string]int{"us": 1}},
		"the first has nothing on the region": {configs: []corev1.ConfigMap{
			config("a", "local", nil), config("b", "local", map[string]string{"eu": "us: 2"}),
		}},
		"an empty entry is none": {configs: []corev1.ConfigMap{
			config("a", "local", map[string]string{"eu": ""}),
		}},
		"an entry without seeds is one": {configs: []corev1.ConfigMap{
			config("a", "local", map[string]string{"eu": "{}"}),
		}, want: map[string]int{}},
		"distances that are no whole numbers": {configs: []corev1.ConfigMap{
			config("a", "local", map[string]string{"eu": "us: far"}),
		}, fails: true},
		"mistakes in other entries do not hurt": {configs: []corev1.ConfigMap{
			config("a", "local", map[string]string{"eu": "us: 1", "us": "["}),
		}, want: map[string]int{"us": 1}},
	} {
		got, err := Distances(tc.configs, "local", "eu")
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.fails {
			t.Errorf("%s: error %v, mismatch (-want +got):\n%s", name, err, diff)
		}
	}
}
