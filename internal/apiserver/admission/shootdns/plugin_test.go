package shootdns

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
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
	project := &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		want  field.ErrorType
	}{
		"its own domain":                {shootWith("a", "a.dev.local.hortus.dev", false), ""},
		"the domain of another":         {shootWith("a", "b.dev.local.hortus.dev", false), field.ErrorTypeInvalid},
		"the domain in another project": {shootWith("a", "a.prod.local.hortus.dev", false), field.ErrorTypeInvalid},
		"deeper":                        {shootWith("a", "x.a.dev.local.hortus.dev", false), field.ErrorTypeInvalid},
		"a name yet to be generated":    {shootWith("", "b.dev.local.hortus.dev", false), ""},
		"a primary provider":            {shootWith("a", "a.dev.local.hortus.dev", true), field.ErrorTypeInvalid},
	} {
		errs := belowDefault(tc.shoot, *tc.shoot.Spec.DNS.Domain, "local.hortus.dev", project)
		if len(errs) == 0 && tc.want == "" || len(errs) == 1 && errs[0].Type == tc.want {
			continue
		}
		t.Errorf("%s: %v", name, errs)
	}
}

func TestTaken(t *testing.T) {
	others := []corev1beta1.Shoot{*shootWith("a", "a.example.com", false), {}}
	for domain, want := range map[string]field.ErrorType{
		"a.example.com":   field.ErrorTypeDuplicate,
		"x.a.example.com": field.ErrorTypeForbidden,
		"example.com":     field.ErrorTypeForbidden,
		"b.example.com":   "",
		"aa.example.com":  "",
	} {
		errs := taken(shootWith("b", domain, false), domain, others)
		if len(errs) == 0 && want == "" || len(errs) == 1 && errs[0].Type == want {
			continue
		}
		t.Errorf("%s: %v", domain, errs)
	}
	if errs := taken(shootWith("a", "a.example.com", false), "a.example.com", others); len(errs) > 0 {
		t.Errorf("a Shoot conflicts with itself: %v", errs)
	}
}
