package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestNamespaceDescribesTheShoot(t *testing.T) {
	seed := &corev1beta1.Seed{}
	seed.Spec.Provider.Type = "metal"
	seed.Spec.Backup = &corev1beta1.Backup{Provider: "store"}
	shoot := &corev1beta1.Shoot{}
	shoot.Status.UID = "uid"
	shoot.Spec.Provider.Type, shoot.Spec.Provider.Workers = "local", []corev1beta1.Worker{{Name: "a"}}
	shoot.Spec.Networking = &corev1beta1.Networking{Type: ptr.To("simple")}
	shoot.Spec.Extensions = []corev1beta1.Extension{
		{Type: "asked"}, {Type: "refused", Disabled: ptr.To(true)}, {Type: "declined", Disabled: ptr.To(true)},
	}
	shoot.Spec.ControlPlane = &corev1beta1.ControlPlane{HighAvailability: &corev1beta1.HighAvailability{
		FailureTolerance: corev1beta1.FailureTolerance{Type: corev1beta1.FailureToleranceTypeZone},
	}}
	forAll := func(kind string) corev1beta1.ControllerResource {
		return corev1beta1.ControllerResource{
			Kind: "Extension", Type: kind, AutoEnable: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot},
		}
	}
	registrations := []corev1beta1.ControllerRegistration{
		{ObjectMeta: metav1.ObjectMeta{Name: "automatic"}, Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{forAll("automatic"), forAll("declined")},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "declined"}, Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{forAll("declined"), {Kind: "Network", Type: "other"}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a-network"}, Spec: corev1beta1.ControllerRegistrationSpec{
			Resources: []corev1beta1.ControllerResource{{Kind: "Network", Type: "simple"}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "of-seeds"}}, // It has no kind by which a Shoot could use it.
	}
	ns := NamespaceFor(shoot, seed, registrations, "shoot--dev--a", []string{"a", "b", "c"})
	if diff := cmp.Diff(map[string]string{
		"gardener.cloud/role":                                        "shoot",
		"seed.gardener.cloud/provider":                               "metal",
		"shoot.gardener.cloud/provider":                              "local",
		"backup.gardener.cloud/provider":                             "store",
		"networking.shoot.gardener.cloud/provider":                   "simple",
		"extensions.gardener.cloud/asked":                            "true",
		"extensions.gardener.cloud/automatic":                        "true",
		"high-availability-config.resources.gardener.cloud/consider": "true",
	}, ns.Labels); diff != "" {
		t.Errorf("labels mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"shoot.gardener.cloud/uid": "uid",
		"high-availability-config.resources.gardener.cloud/failure-tolerance-type": "zone",
		"high-availability-config.resources.gardener.cloud/zones":                  "a,b,c",
		"hortus.dev/extensions": "a-network,automatic,of-seeds",
	}, ns.Annotations); diff != "" {
		t.Errorf("annotations mismatch (-want +got):\n%s", diff)
	}
}
