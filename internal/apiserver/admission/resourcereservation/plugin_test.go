package resourcereservation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func show(kubelet *corev1beta1.KubeletConfig) string {
	if kubelet == nil || kubelet.KubeReserved == nil {
		return ""
	}
	r := kubelet.KubeReserved
	text := fmt.Sprintf("%s %s %s", r.CPU, r.Memory, r.PID)
	if kubelet.MaxPods != nil {
		text += fmt.Sprintf(" maxPods=%d", *kubelet.MaxPods)
	}
	return text
}

func TestReserveForAll(t *testing.T) {
	for name, tc := range map[string]struct {
		kubelet *corev1beta1.KubeletConfig
		want    string
	}{
		"nothing is given": {nil, "80m 1Gi 20k"},
		"a part is given": {&corev1beta1.KubeletConfig{KubeReserved: &corev1beta1.KubeletConfigReserved{
			Memory: ptr.To(resource.MustParse("2Gi")),
		}}, "80m 2Gi 20k"},
		"other settings stay": {&corev1beta1.KubeletConfig{MaxPods: ptr.To[int32](50)}, "80m 1Gi 20k maxPods=50"},
	} {
		shoot := &corev1beta1.Shoot{}
		shoot.Spec.Kubernetes.Kubelet = tc.kubelet
		for range 2 { // The second call changes nothing.
			reserveForAll(shoot)
			if got := show(shoot.Spec.Kubernetes.Kubelet); got != tc.want {
				t.Errorf("%s: %q, want %q", name, got, tc.want)
			}
		}
	}
}

func TestReserveByMachine(t *testing.T) {
	types := []corev1beta1.MachineType{
		{Name: "tiny", CPU: resource.MustParse("500m"), Memory: resource.MustParse("512Mi")},
		{Name: "large", CPU: resource.MustParse("8"), Memory: resource.MustParse("16Gi")},
	}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.Kubelet = &corev1beta1.KubeletConfig{MaxPods: ptr.To[int32](50)}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{
		{Name: "a", Machine: corev1beta1.Machine{Type: "tiny"}}, {Name: "b", Machine: corev1beta1.Machine{Type: "large"}},
		{Name: "c", Machine: corev1beta1.Machine{Type: "large"},
			Kubernetes: &corev1beta1.WorkerKubernetes{Kubelet: &corev1beta1.KubeletConfig{
				KubeReserved: &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse("1"))},
			}}},
		{Name: "d", Machine: corev1beta1.Machine{Type: "gone"}},
	}
	reserveByMachine(shoot, types)
	var got []string
	for _, worker := range shoot.Spec.Provider.Workers {
		text := worker.Name
		if worker.Kubernetes != nil {
			text += " " + show(worker.Kubernetes.Kubelet)
		}
		got = append(got, text)
	}
	// 6 % of 0.5 cores; 60m + 10m + 10m + 10m; 1 GiB + 0.8 GiB + 0.8 GiB.
	want := "a 30m 255Mi 20k maxPods=50, b 90m 2791728742 20k maxPods=50, c 1 <nil> <nil>, d"
	if joined := strings.Join(got, ", "); joined != want {
		t.Errorf("got  %s\nwant %s", joined, want)
	}
	if shoot.Spec.Kubernetes.Kubelet.KubeReserved != nil {
		t.Error("also reserves for all pools")
	}
	shoot.Spec.Kubernetes.Kubelet.KubeReserved = &corev1beta1.KubeletConfigReserved{}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{Machine: corev1beta1.Machine{Type: "large"}}}
	if reserveByMachine(shoot, types); shoot.Spec.Provider.Workers[0].Kubernetes != nil {
		t.Error("overrides the Shoot's reservation for all pools")
	}
}

func TestPoolsFollowWhatHoldsForAll(t *testing.T) {
	kubelet := func(pods int32, cpu string) *corev1beta1.KubeletConfig {
		k := &corev1beta1.KubeletConfig{MaxPods: ptr.To(pods)}
		if cpu != "" {
			k.KubeReserved = &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse(cpu))}
		}
		return k
	}
	shoot := func(global *corev1beta1.KubeletConfig, pool *corev1beta1.WorkerKubernetes) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{}
		s.Spec.Kubernetes.Kubelet = global
		s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "pool", Kubernetes: pool}}
		return s
	}
	of := func(k *corev1beta1.KubeletConfig) *corev1beta1.WorkerKubernetes {
		return &corev1beta1.WorkerKubernetes{Kubelet: k}
	}
	for name, tc := range map[string]struct {
		now, old *corev1beta1.Shoot
		want     *corev1beta1.WorkerKubernetes
	}{
		"settings copied for the reservation": {
			shoot(kubelet(200, ""), of(kubelet(110, "90m"))), shoot(kubelet(110, ""), of(kubelet(110, "90m"))),
			of(kubelet(200, "90m")),
		},
		"the pool's own settings": {
			shoot(kubelet(200, ""), of(kubelet(50, "90m"))), shoot(kubelet(110, ""), of(kubelet(50, "90m"))),
			of(kubelet(50, "90m")),
		},
		"settings that change, too": {
			shoot(kubelet(200, ""), of(kubelet(110, "1"))), shoot(kubelet(110, ""), of(kubelet(110, "90m"))),
			of(kubelet(110, "1")),
		},
		"an unrelated change": {
			shoot(kubelet(110, ""), of(kubelet(110, "90m"))), shoot(kubelet(110, ""), of(kubelet(110, "90m"))),
			of(kubelet(110, "90m")),
		},
		"a new reservation for all pools": {
			shoot(kubelet(200, "1"), of(kubelet(110, "90m"))), shoot(kubelet(110, ""), of(kubelet(110, "90m"))),
			of(kubelet(110, "90m")),
		},
		"a pool without settings": {shoot(kubelet(200, ""), nil), shoot(kubelet(110, ""), nil), nil},
		"a pool that had none": {
			shoot(kubelet(200, ""), of(kubelet(110, ""))), shoot(kubelet(110, ""), nil), of(kubelet(110, "")),
		},
		"a Shoot that gets settings": {
			shoot(kubelet(200, ""), of(kubelet(110, "90m"))), shoot(nil, of(kubelet(110, "90m"))), of(kubelet(110, "90m")),
		},
	} {
		followGlobal(tc.now, tc.old)
		if diff := cmp.Diff(tc.want, tc.now.Spec.Provider.Workers[0].Kubernetes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	unknown := shoot(kubelet(200, ""), of(kubelet(110, "90m")))
	if followGlobal(unknown, &corev1beta1.Shoot{}); *unknown.Spec.Provider.Workers[0].Kubernetes.Kubelet.MaxPods != 110 {
		t.Error("a new pool gets other settings")
	}
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: shootresourcereservation.admission.gardener.cloud/v1alpha1\nkind: Configuration\n"
	for config, ok := range map[string]bool{
		"": true, head: true, head + "useGKEFormula: true\n": true, head +
			"useGKEFormula: true\nselector: {matchLabels: {a: b}}\n": true,
		head + "useGKE: true\n": false, "apiVersion: v1\nkind: Configuration\n": false,
		head + "useGKEFormula: true\nselector: {matchExpressions: [{key: a, operator: Some}]}\n": false,
	} {
		if _, err := New(strings.NewReader(config)); (err == nil) != ok {
			t.Errorf("%q: %v", config, err)
		}
	}
}
