package steps

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestPodSecurity(t *testing.T) {
	registrations := []corev1beta1.ControllerRegistration{{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}}
	for _, level := range []string{"restricted", "baseline", "privileged", "nonsense"} {
		registrations = append(registrations, corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{
			Name: level, Annotations: map[string]string{corev1beta1.AnnotationPodSecurityEnforce: level},
		}})
	}
	for name, tc := range map[string]struct {
		installed []string
		want      string
	}{
		"no extensions":                       {nil, "restricted"},
		"an extension without requirements":   {[]string{"restricted"}, "restricted"},
		"the weakest counts":                  {[]string{"restricted", "baseline"}, "baseline"},
		"one that says nothing":               {[]string{"restricted", "silent"}, "privileged"},
		"a privileged extension":              {[]string{"privileged", "baseline"}, "privileged"},
		"an invalid level":                    {[]string{"nonsense"}, "privileged"},
		"an extension without a registration": {[]string{"gone"}, "privileged"},
	} {
		var installations []corev1beta1.ControllerInstallation
		for _, r := range tc.installed {
			installations = append(installations, corev1beta1.ControllerInstallation{
				Spec: corev1beta1.ControllerInstallationSpec{RegistrationRef: corev1.ObjectReference{Name: r}},
			})
		}
		if got := podSecurity(registrations, installations); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
