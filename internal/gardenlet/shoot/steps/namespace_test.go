package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/kube"
)

// A Bastion that was created after the others were removed keeps its credentials.
func TestNamespaceWaitsForBastions(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, extensionsv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	bastion := &extensionsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "b"}}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	seed := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ns.DeepCopy(), bastion.DeepCopy()).Build()
	for _, wait := range []bool{true, false} {
		outcome, err := Namespace.Remove(t.Context(), &Scope{
			Values: Values{Namespace: "here"}, Seed: seed, SeedApplied: &kube.ApplyCache{},
		})
		if err != nil || outcome.IsDone() {
			t.Errorf("the removal ends with %+v, %v", outcome, err)
		}
		if found, err := kube.Exists(t.Context(), seed, ns); err != nil || found != wait {
			t.Errorf("the namespace exists: %t, %v, want %t", found, err, wait)
		}
		if wait {
			if err := seed.Delete(t.Context(), bastion); err != nil {
				t.Fatal(err)
			}
		}
	}
}

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
