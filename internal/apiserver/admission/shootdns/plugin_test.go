package shootdns

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func shootWith(name, domain string, primary bool) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: name}}
	s.Spec.DNS = &corev1beta1.DNS{Domain: &domain}
	if primary {
		s.Spec.DNS.Providers = []corev1beta1.DNSProvider{{Primary: ptr.To(true)}}
	}
	return s
}

func TestBelowDefault(t *testing.T) {
	messages := map[string]error{}
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	defaults := []string{"dev.local.hortus.dev", "local.hortus.dev", "hortus.example"}
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		want  field.ErrorType
	}{
		"its own domain":                {shootWith("a", "a.dev.local.hortus.dev", false), ""},
		"its own, below two defaults":   {shootWith("a", "a.dev.dev.local.hortus.dev", false), ""},
		"the domain of another":         {shootWith("a", "b.dev.local.hortus.dev", false), field.ErrorTypeInvalid},
		"the domain in another project": {shootWith("a", "a.prod.local.hortus.dev", false), field.ErrorTypeInvalid},
		"deeper":                        {shootWith("a", "x.a.dev.local.hortus.dev", false), field.ErrorTypeInvalid},
		"a name yet to be generated":    {shootWith("", "b.dev.local.hortus.dev", false), ""},
		"a primary provider":            {shootWith("a", "a.dev.local.hortus.dev", true), field.ErrorTypeInvalid},
	} {
		errs := belowDefault(tc.shoot, *tc.shoot.Spec.DNS.Domain, below(*tc.shoot.Spec.DNS.Domain, defaults), project)
		messages[name] = errs.ToAggregate()
		if len(errs) == 0 && tc.want == "" || len(errs) == 1 && errs[0].Type == tc.want {
			continue
		}
		t.Errorf("%s: %v", name, errs)
	}
	golden.Messages(t, messages)
}

func TestReservedDomains(t *testing.T) {
	seed := func(internal, ingress string) corev1beta1.Seed {
		var s corev1beta1.Seed
		if internal != "" {
			s.Spec.DNS.Internal = &corev1beta1.SeedDNSProviderConfig{Domain: internal}
		}
		if ingress != "" {
			s.Spec.Ingress = &corev1beta1.Ingress{Domain: ingress}
		}
		return s
	}
	reserved := reservedDomains([]corev1beta1.Seed{
		seed("cloud.example", "ingress.one.example"), seed("internal.two.example", ""), seed("", ""),
	})
	for domain, want := range map[string]bool{
		"mine.example":                          false,
		"a.dev.internal.cloud.example":          true, // The internal name of another Shoot.
		"A.dev.Internal.cloud.example":          true,
		"internal.cloud.example":                true,
		"cloud.example":                         true, // A parent domain.
		"notinternal.cloud.example":             false,
		"mine.internal.two.example":             true,
		"other.two.example":                     false,
		"x.ingress.one.example":                 true,
		"a.dev.internal.cloud.example.mine.org": false,
	} {
		errs := outsideReserved(domain, reserved)
		if (len(errs) == 1) != want {
			t.Errorf("%s: %v, want refused %v", domain, errs, want)
		}
	}
}

func TestAssignedPrimaryProvider(t *testing.T) {
	provider := func(name string, primary *bool) corev1beta1.DNSProvider {
		return corev1beta1.DNSProvider{
			Type: ptr.To("t"), Primary: primary,
			CredentialsRef: &autoscalingv1.CrossVersionObjectReference{Kind: "Secret", Name: name},
		}
	}
	dns := func(providers ...corev1beta1.DNSProvider) *corev1beta1.DNS {
		return &corev1beta1.DNS{Providers: providers}
	}
	for name, tc := range map[string]struct {
		now, old *corev1beta1.DNS
		want     string // Name of the primary provider.
	}{
		"the first of new ones": {dns(provider("a", nil), provider("b", nil)), dns(), "a"},
		"the one that says so": {
			dns(provider("a", nil), provider("b", ptr.To(true))), dns(provider("a", ptr.To(true))), "b",
		},
		"the one from before": {
			dns(provider("a", nil), provider("b", nil)), dns(provider("b", ptr.To(true)), provider("a", nil)), "b",
		},
		"another if the previous one is gone": {dns(provider("c", nil)), dns(provider("b", ptr.To(true))), "c"},
	} {
		restorePrimary(tc.now, tc.old)
		markPrimary(tc.now)
		got := ""
		for _, p := range tc.now.Providers {
			if isPrimary(p) {
				got += p.CredentialsRef.Name
			}
		}
		if got != tc.want {
			t.Errorf("%s: primary %q, want %q", name, got, tc.want)
		}
	}
}
