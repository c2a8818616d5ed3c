package controllerregistrationresources

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestConflicts(t *testing.T) {
	messages := map[string]error{}
	registration := func(name string, primary *bool) corev1beta1.ControllerRegistration {
		return corev1beta1.ControllerRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1beta1.ControllerRegistrationSpec{
				Resources: []corev1beta1.ControllerResource{{Kind: "Worker", Type: "local", Primary: primary}},
			},
		}
	}
	others := []corev1beta1.ControllerRegistration{registration("first", nil), registration("helper", ptr.To(false))}
	for name, tc := range map[string]struct {
		registration corev1beta1.ControllerRegistration
		want         int
	}{
		"the owner itself":   {registration("first", ptr.To(true)), 0},
		"a second owner":     {registration("second", ptr.To(true)), 1},
		"one that helps":     {registration("second", ptr.To(false)), 0},
		"silence is a claim": {registration("second", nil), 1},
	} {
		errs := conflicts(&tc.registration, others)
		messages[name] = errs.ToAggregate()
		if len(errs) != tc.want {
			t.Errorf("%s: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}
