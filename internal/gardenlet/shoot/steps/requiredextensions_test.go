package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestMissingExtensions(t *testing.T) {
	registration := func(resources ...corev1beta1.ControllerResource) corev1beta1.ControllerRegistration {
		return corev1beta1.ControllerRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec:       corev1beta1.ControllerRegistrationSpec{Resources: resources},
		}
	}
	forAll := corev1beta1.ControllerResource{
		Kind: "Extension", Type: "all", AutoEnable: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot},
		WorkerlessSupported: ptr.To(true),
	}
	globally := corev1beta1.ControllerResource{
		Kind: "Extension", Type: "all", GloballyEnabled: ptr.To(true), WorkerlessSupported: ptr.To(true),
	}
	onRequest := corev1beta1.ControllerResource{Kind: "Extension", Type: "some", WorkerlessSupported: ptr.To(true)}
	workersOnly := forAll
	workersOnly.WorkerlessSupported = nil
	installed := func(healthy corev1beta1.ConditionStatus) []corev1beta1.ControllerInstallation {
		return []corev1beta1.ControllerInstallation{{
			ObjectMeta: metav1.ObjectMeta{Name: "r-seed"},
			Spec:       corev1beta1.ControllerInstallationSpec{RegistrationRef: corev1.ObjectReference{Name: "r"}},
			Status: corev1beta1.ControllerInstallationStatus{Conditions: []corev1beta1.Condition{
				{Type: corev1beta1.ControllerInstallationInstalled, Status: corev1beta1.ConditionTrue},
				{Type: corev1beta1.ControllerInstallationHealthy, Status: healthy},
				{Type: corev1beta1.ControllerInstallationProgressing, Status: corev1beta1.ConditionFalse},
			}},
		}}
	}
	shoot := func(extensions ...corev1beta1.Extension) *corev1beta1.Shoot {
		return &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{Extensions: extensions}}
	}
	for name, tc := range map[string]struct {
		shoot         *corev1beta1.Shoot
		registered    corev1beta1.ControllerRegistration
		installations []corev1beta1.ControllerInstallation
		want          []string
	}{
		"one for all Shoots": {
			shoot: shoot(), registered: registration(forAll), want: []string{"Extension/all"},
		},
		"one for all Shoots, in the older spelling": {
			shoot: shoot(), registered: registration(globally), want: []string{"Extension/all"},
		},
		"enabled for all Shoots with nodes": {shoot: shoot(), registered: registration(workersOnly)},
		"enabled for all Shoots, disabled in this one": {
			shoot: shoot(corev1beta1.Extension{Type: "all", Disabled: ptr.To(true)}), registered: registration(forAll),
		},
		"not requested": {shoot: shoot(), registered: registration(onRequest)},
		"requested by the Shoot": {
			shoot: shoot(corev1beta1.Extension{Type: "some"}), registered: registration(onRequest),
			want: []string{"Extension/some"},
		},
		"one that is installed": {
			shoot: shoot(), registered: registration(forAll), installations: installed(corev1beta1.ConditionTrue),
		},
		"unhealthy": {
			shoot: shoot(), registered: registration(forAll), installations: installed(corev1beta1.ConditionFalse),
			want: []string{"Extension/all (condition Healthy of ControllerInstallation r-seed is False)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			registrations := []corev1beta1.ControllerRegistration{tc.registered}
			got := missingExtensions(tc.shoot, &corev1beta1.Seed{}, registrations, tc.installations)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("missingExtensions() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}
