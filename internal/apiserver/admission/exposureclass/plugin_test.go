package exposureclass

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func selector(types []string, labels map[string]string) *corev1beta1.SeedSelector {
	return &corev1beta1.SeedSelector{LabelSelector: metav1.LabelSelector{MatchLabels: labels}, ProviderTypes: types}
}

func TestMerge(t *testing.T) {
	messages := map[string]error{}
	class := &corev1beta1.ExposureClassScheduling{
		SeedSelector: selector([]string{"local"}, map[string]string{"net": "private", "zone": "inner"}),
		Tolerations:  []corev1beta1.Toleration{{Key: "private"}},
	}
	for name, tc := range map[string]struct {
		spec, want corev1beta1.ShootSpec
		errs       int
	}{
		"a Shoot without rules gets those of the class": {
			want: corev1beta1.ShootSpec{SeedSelector: class.SeedSelector, Tolerations: class.Tolerations},
		},
		"rules are merged": {
			spec: corev1beta1.ShootSpec{
				SeedSelector: selector([]string{"other", "local"}, map[string]string{"a": "b"}),
				Tolerations:  []corev1beta1.Toleration{{Key: "x"}},
			},
			want: corev1beta1.ShootSpec{
				SeedSelector: selector([]string{"other", "local"}, map[string]string{"a": "b", "net": "private", "zone": "inner"}),
				Tolerations:  []corev1beta1.Toleration{{Key: "x"}, {Key: "private"}},
			},
		},
		"rules that contradict the class are refused": {
			spec: corev1beta1.ShootSpec{
				SeedSelector: selector([]string{"local"}, map[string]string{"net": "public", "zone": "outer"}),
				Tolerations:  class.Tolerations,
			},
			want: corev1beta1.ShootSpec{
				SeedSelector: selector([]string{"local"}, map[string]string{"net": "public", "zone": "outer"}),
				Tolerations:  class.Tolerations,
			},
			errs: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs := merge(&tc.spec, class)
			messages[name] = errs.ToAggregate()
			if len(errs) != tc.errs {
				t.Errorf("errors: %v", errs)
			}
			if diff := cmp.Diff(tc.want, tc.spec); diff != "" {
				t.Errorf("merge() mismatch (-want +got):\n%s", diff)
			}
		})
	}
	golden.Messages(t, messages)
}
