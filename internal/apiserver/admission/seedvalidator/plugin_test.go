package seedvalidator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestLosses(t *testing.T) {
	messages := map[string]error{}
	spec := func(zones []string, internal string, domains ...string) *corev1beta1.SeedSpec {
		s := &corev1beta1.SeedSpec{Provider: corev1beta1.SeedProvider{Zones: zones}}
		s.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Domain: internal}
		for _, domain := range domains {
			s.DNS.Defaults = append(s.DNS.Defaults, corev1beta1.SeedDNSProviderConfig{Domain: domain})
		}
		return s
	}
	old := spec([]string{"a", "b"}, "internal.example.com", "example.com", "example.org")
	shoots := []corev1beta1.Shoot{
		{Spec: corev1beta1.ShootSpec{DNS: &corev1beta1.DNS{Domain: ptr.To("x.dev.example.com")}}},
	}
	for range 11 {
		shoots = append(shoots, corev1beta1.Shoot{})
	}
	for i := range shoots {
		shoots[i].Namespace, shoots[i].Name = "garden-dev", string(rune('a'+i))
	}
	for name, tc := range map[string]struct {
		now  *corev1beta1.SeedSpec
		want []string
	}{
		"nothing": {
			spec([]string{"b", "a", "c"}, "internal.example.com", "example.net", "example.com", "example.org"), nil,
		},
		"a zone": {
			spec([]string{"a"}, "internal.example.com", "example.com", "example.org"), []string{"spec.provider.zones"},
		},
		"the inner domain": {
			spec([]string{"a", "b"}, "other.example.com", "example.com", "example.org"), []string{"spec.dns.internal.domain"},
		},
		"a domain in use": {
			spec([]string{"a", "b"}, "internal.example.com", "example.org"), []string{"spec.dns.defaults"},
		},
		"a domain of nobody": {spec([]string{"a", "b"}, "internal.example.com", "example.com"), nil},
	} {
		var got []string
		errs := lose(tc.now, old).usedBy(shoots, field.NewPath("spec"))
		messages[name] = errs.ToAggregate()
		for _, err := range errs {
			got = append(got, err.Field)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	golden.Messages(t, messages)
}
