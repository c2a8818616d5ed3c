package plugins

import (
	"io"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// The plugins that are disabled by default change Shoots when they are enabled.
func TestPluginsThatAreOff(t *testing.T) {
	configurations := map[string]string{
		"ShootDNSRewriting": "apiVersion: shootdnsrewriting.admission.gardener.cloud/v1alpha1\nkind: Configuration\ncommonSuffixes: [a.example.org]\n",
	}
	effects := map[string]func(*corev1beta1.ShootSpec) bool{
		"ShootNodeLocalDNSEnabledByDefault": func(s *corev1beta1.ShootSpec) bool {
			return s.SystemComponents != nil && s.SystemComponents.NodeLocalDNS != nil && s.SystemComponents.NodeLocalDNS.Enabled
		},
		"ShootDNSRewriting": func(s *corev1beta1.ShootSpec) bool {
			return s.SystemComponents != nil && s.SystemComponents.CoreDNS != nil &&
				len(s.SystemComponents.CoreDNS.Rewriting.CommonSuffixes) == 1
		},
		"ShootVPAEnabledByDefault": func(s *corev1beta1.ShootSpec) bool {
			return s.Kubernetes.VerticalPodAutoscaler != nil && s.Kubernetes.VerticalPodAutoscaler.Enabled
		},
	}
	for _, plugin := range own {
		if !plugin.off {
			continue
		}
		effect, known := effects[plugin.name]
		if !known {
			t.Errorf("nothing is known of %s", plugin.name)
			continue
		}
		var configuration io.Reader
		if text := configurations[plugin.name]; text != "" {
			configuration = strings.NewReader(text)
		}
		made, err := plugin.make(configuration)
		if err != nil {
			t.Errorf("%s: %v", plugin.name, err)
			continue
		}
		for subresource, want := range map[string]bool{"": true, "binding": false} {
			shoot := &corev1beta1.Shoot{}
			shoot.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "pool"}}
			a := admission.NewAttributesRecord(shoot, nil, corev1beta1.SchemeGroupVersion.WithKind("Shoot"), "dev", "apple",
				corev1beta1.SchemeGroupVersion.WithResource("shoots"), subresource, admission.Create, nil, false, nil)
			if err := made.(admission.MutationInterface).Admit(t.Context(), a, nil); err != nil {
				t.Errorf("%s: %v", plugin.name, err)
			}
			if got := effect(&shoot.Spec); got != want {
				t.Errorf("%s on subresource %q: %+v", plugin.name, subresource, shoot.Spec)
			}
		}
		if made.Handles(admission.Update) || made.Handles(admission.Delete) {
			t.Errorf("%s changes existing Shoots", plugin.name)
		}
		delete(effects, plugin.name)
	}
	for name := range effects {
		t.Errorf("%s is enabled, or there is no such plugin", name)
	}
}
