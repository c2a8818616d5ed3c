package offer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func fieldsOf(errs field.ErrorList) []string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return fields
}

func TestReservedLessThanTheMachineHas(t *testing.T) {
	c := check{profile: &corev1beta1.CloudProfileSpec{
		MachineTypes: []corev1beta1.MachineType{{
			Name: "small", CPU: resource.MustParse("2"), Memory: resource.MustParse("2Gi"),
		}},
	}}
	pool := func(cpu, memory string) *corev1beta1.Worker {
		return &corev1beta1.Worker{Machine: corev1beta1.Machine{Type: "small"},
			Kubernetes: &corev1beta1.WorkerKubernetes{Kubelet: &corev1beta1.KubeletConfig{
				KubeReserved: &corev1beta1.KubeletConfigReserved{
					CPU: ptr.To(resource.MustParse(cpu)), Memory: ptr.To(resource.MustParse(memory)),
				},
			}}}
	}
	withSystem := func(w *corev1beta1.Worker, memory string) *corev1beta1.Worker {
		w.Kubernetes.Kubelet.SystemReserved = &corev1beta1.KubeletConfigReserved{Memory: ptr.To(resource.MustParse(memory))}
		return w
	}
	onlySystem := withSystem(pool("1", "1Gi"), "2Gi")
	onlySystem.Kubernetes.Kubelet.KubeReserved = nil
	for name, tc := range map[string]struct {
		worker, old *corev1beta1.Worker
		want        []string
	}{
		"less together": {withSystem(pool("1", "1Gi"), "1023Mi"), pool("1", "1Gi"), nil},
		"all together": {
			withSystem(pool("1", "1Gi"), "1Gi"), pool("1", "1Gi"), []string{"p.kubernetes.kubelet.kubeReserved.memory"},
		},
		"all for the system": {onlySystem, nil, []string{"p.kubernetes.kubelet.systemReserved.memory"}},
		"less":               {pool("1", "1Gi"), nil, nil},
		"all": {
			pool("2", "2Gi"), nil, []string{"p.kubernetes.kubelet.kubeReserved.cpu", "p.kubernetes.kubelet.kubeReserved.memory"},
		},
		"all, as before":     {pool("2", "2Gi"), pool("2", "2Gi"), nil},
		"nothing":            {&corev1beta1.Worker{Machine: corev1beta1.Machine{Type: "small"}}, nil, nil},
		"more memory is all": {pool("1", "3Gi"), pool("1", "1Gi"), []string{"p.kubernetes.kubelet.kubeReserved.memory"}},
	} {
		if diff := cmp.Diff(tc.want, fieldsOf(c.reserved(tc.worker, tc.old, field.NewPath("p")))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInternalVersionsHaveNoWireFormat(t *testing.T) {
	raw := func(apiVersion string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"apiVersion":"` + apiVersion + `","kind":"Config"}`)}
	}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Provider = corev1beta1.Provider{
		InfrastructureConfig: raw("local.provider.hortus.dev/v1alpha1"),
		ControlPlaneConfig:   raw("local.provider.hortus.dev/__internal"),
		Workers: []corev1beta1.Worker{{
			ProviderConfig: raw("__internal"),
			Machine:        corev1beta1.Machine{Image: &corev1beta1.ShootMachineImage{ProviderConfig: raw("x/__internal")}},
		}},
	}
	want := []string{
		"spec.provider.controlPlaneConfig.apiVersion", "spec.provider.workers[0].providerConfig.apiVersion",
		"spec.provider.workers[0].machine.image.providerConfig.apiVersion",
	}
	c := check{shoot: shoot}
	if diff := cmp.Diff(want, fieldsOf(c.rawConfigs())); diff != "" {
		t.Errorf("rawConfigs() (-want +got):\n%s", diff)
	}
}
