package steps

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestChooseZones(t *testing.T) {
	const node, zone = corev1beta1.FailureToleranceTypeNode, corev1beta1.FailureToleranceTypeZone
	abcd := []string{"d", "c", "b", "a"}
	for name, tc := range map[string]struct {
		have, offered []string
		tolerance     corev1beta1.FailureToleranceType
		want          []string
	}{
		"one zone of a seed with one":                     {nil, []string{"a"}, "", []string{"a"}},
		"one zone for the failure of a node":              {nil, []string{"a"}, node, []string{"a"}},
		"three zones for the failure of a zone":           {nil, []string{"c", "a", "b"}, zone, []string{"a", "b", "c"}},
		"what there is stays":                             {[]string{"b"}, abcd, "", []string{"b"}},
		"existing zones stay and more are added":          {[]string{"z"}, []string{"a", "b"}, zone, []string{"a", "b", "z"}},
		"zones that are no longer needed stay":            {[]string{"a", "b", "c"}, abcd, "", []string{"a", "b", "c"}},
		"fewer than needed":                               {nil, []string{"b", "a"}, zone, []string{"a", "b"}},
		"a seed without zones":                            {nil, nil, "", nil},
		"a seed without zones, for the failure of a zone": {nil, nil, zone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, chooseZones(tc.have, tc.offered, tc.tolerance, "shoot--dev--a")); diff != "" {
				t.Errorf("chooseZones() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestControlPlanesAreDistributedOverZones(t *testing.T) {
	count := map[string]int{}
	for i := range 300 {
		for _, zone := range chooseZones(nil, []string{"a", "b", "c"}, "", fmt.Sprintf("shoot--dev--%d", i)) {
			count[zone]++
		}
	}
	for _, zone := range []string{"a", "b", "c"} {
		if count[zone] < 60 {
			t.Errorf("zone %s has %d of 300 control planes", zone, count[zone])
		}
	}
}
