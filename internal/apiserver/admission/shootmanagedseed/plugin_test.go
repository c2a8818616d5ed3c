package shootmanagedseed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestChanges(t *testing.T) {
	messages := map[string]error{}
	shoot := func(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{}
		s.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{Enabled: true}
		s.Spec.Networking = &corev1beta1.Networking{Nodes: ptr.To("10.0.0.0/16")}
		s.Spec.Provider.Workers = []corev1beta1.Worker{{Zones: []string{"a", "b"}}, {Zones: []string{"b", "c"}}}
		for _, c := range change {
			c(s)
		}
		return s
	}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		want   []string
	}{
		"something else": {func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Maximum = 5 }, nil},
		"an ingress addon": {func(s *corev1beta1.Shoot) {
			s.Spec.Addons = &corev1beta1.Addons{NginxIngress: &corev1beta1.NginxIngress{Addon: corev1beta1.Addon{Enabled: true}}}
		}, []string{"spec.addons.nginxIngress.enabled"}},
		"no autoscaler": {
			func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.VerticalPodAutoscaler = nil },
			[]string{"spec.kubernetes.verticalPodAutoscaler.enabled"},
		},
		"other nodes": {
			func(s *corev1beta1.Shoot) { s.Spec.Networking.Nodes = ptr.To("10.0.0.0/8") }, []string{"spec.networking.nodes"},
		},
		"no nodes":               {func(s *corev1beta1.Shoot) { s.Spec.Networking = nil }, []string{"spec.networking.nodes"}},
		"a zone of another pool": {func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Zones = []string{"a"} }, nil},
		"a registered zone less": {
			func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[0].Zones = []string{"b"} }, []string{"spec.provider.workers"},
		},
		"another zone less": {func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers[1].Zones = []string{"b"} }, nil},
	} {
		var got []string
		errs := changes(shoot(tc.change), shoot(), []string{"a", "b", "unknown"})
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
