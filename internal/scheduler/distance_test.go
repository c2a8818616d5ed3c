package scheduler

import "testing"

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
	} {
		if got := RegionDistance(tc.a, tc.b); got != tc.want {
			t.Errorf("RegionDistance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if forth, back := RegionDistance(tc.a, tc.b), RegionDistance(tc.b, tc.a); forth != back {
			t.Errorf("RegionDistance(%q, %q) = %d but %d the other way", tc.a, tc.b, forth, back)
		}
	}
}
