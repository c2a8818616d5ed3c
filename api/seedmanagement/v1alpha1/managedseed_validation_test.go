package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fields that admission sets may be empty in either manifest; fields that are set in both must be the same.
func TestChangesBeforeAdmission(t *testing.T) {
	written := func(seed string) *ManagedSeed {
		return &ManagedSeed{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "apple", ResourceVersion: "1"},
			Spec: ManagedSeedSpec{Shoot: &Shoot{Name: "apple"}, Gardenlet: GardenletConfig{
				MergeWithParent: new(true),
				Config: &runtime.RawExtension{Raw: []byte(
					`{"apiVersion":"gardenlet.config.gardener.cloud/v1alpha1","kind":"GardenletConfiguration","seedConfig":{"spec":` +
						seed + `}}`)},
			}},
		}
	}
	const networks, path = `{"networks":{"nodes":"10.0.0.0/16","pods":"10.1.0.0/16","services":"10.2.0.0/16"}}`,
		"spec.gardenlet.config.seedConfig.spec."
	const ingress, backup = `{"ingress":{"domain":"a.example.org"}}`, `{"backup":{"provider":"local"}}`
	for name, tc := range map[string]struct {
		now, before string
		want        []string
	}{
		"nothing is written":           {`{}`, `{}`, nil},
		"networks come from the Shoot": {`{}`, networks, nil},
		"networks are set later":       {networks, `{}`, nil},
		"networks change": {`{"networks":{"nodes":"10.0.0.0/17","pods":"10.1.0.0/17","services":"10.2.0.0/17"}}`, networks,
			[]string{path + "networks.pods", path + "networks.services", path + "networks.nodes"}},
		"a domain comes from the Shoot": {`{"ingress":{}}`, ingress, nil},
		"a domain is set later":         {ingress, `{"ingress":{}}`, nil},
		"a domain changes": {
			`{"ingress":{"domain":"b.example.org"}}`, ingress, []string{path + "ingress.domain"},
		},
		"a store comes from the Shoot": {`{"backup":{}}`, backup, nil},
		"a store changes":              {`{"backup":{"provider":"aws"}}`, backup, []string{path + "backup.provider"}},
		"a store is removed":           {`{}`, backup, []string{path + "backup"}},
	} {
		var got []string
		for _, err := range (ManagedSeedValidation{BeforeAdmission: true}).Update(written(tc.now), written(tc.before)) {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
