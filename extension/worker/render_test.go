package worker

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestRender(t *testing.T) {
	for name, change := range map[string]func(*extensionsv1alpha1.WorkerPool){
		"plain": func(*extensionsv1alpha1.WorkerPool) {},
		"everything": func(p *extensionsv1alpha1.WorkerPool) {
			p.Zones = []string{"a", "b"}
			p.Annotations = map[string]string{"note": "x"}
			p.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			p.MachineControllerManagerSettings = &extensionsv1alpha1.MachineControllerManagerSettings{
				MachineDrainTimeout:  &metav1.Duration{Duration: time.Hour},
				MachineHealthTimeout: &metav1.Duration{Duration: 5 * time.Minute},
				MaxEvictRetries:      ptr.To(int32(3)), NodeConditions: []string{"DiskPressure", "KernelDeadlock"},
			}
			p.ClusterAutoscaler = &extensionsv1alpha1.ClusterAutoscalerOptions{
				ScaleDownUtilizationThreshold: ptr.To("0.7"), ScaleDownUnneededTime: &metav1.Duration{Duration: 10 * time.Minute},
			}
			p.Architecture, p.Priority = ptr.To("arm64"), ptr.To(int32(5))
		},
		"in-place-by-hand": func(p *extensionsv1alpha1.WorkerPool) {
			p.UpdateStrategy, p.NodeAgentSecretName = ptr.To(corev1beta1.ManualInPlaceUpdate), ptr.To("gardener-node-agent-pool")
			p.MachineControllerManagerSettings = &extensionsv1alpha1.MachineControllerManagerSettings{
				DisableHealthTimeout: ptr.To(true),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &extensionsv1alpha1.WorkerPool{
				Name: "pool", MachineType: "small", Minimum: 3, Maximum: 5, MaxSurge: intstr.FromInt32(1),
				MaxUnavailable:      intstr.FromInt32(0),
				MachineImage:        extensionsv1alpha1.MachineImage{Name: "os", Version: "1.0.0"},
				NodeAgentSecretName: ptr.To("gardener-node-agent-pool-0123456789abcdef"), KubernetesVersion: ptr.To("1.36.3"),
				Labels: map[string]string{"worker.gardener.cloud/pool": "pool"},
				NodeTemplate: &extensionsv1alpha1.NodeTemplate{
					Capacity: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
					},
				},
			}
			change(pool)
			worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--dev--a", Name: "a"}}
			worker.Spec.Region = "r1"
			worker.Spec.SecretRef = corev1.SecretReference{Namespace: "shoot--dev--a", Name: "cloudprovider"}
			shoot := &corev1beta1.Shoot{}
			shoot.Spec.Kubernetes.Version = "1.36.3"
			var out bytes.Buffer
			for z := range max(len(pool.Zones), 1) {
				w, err := wanted(worker, shoot, pool, z, Machine{
					Provider: "test", Spec: runtime.RawExtension{Raw: []byte(`{"image":"x"}`)},
					NodeLabels: map[string]string{"from": "provider"},
				})
				if err != nil {
					t.Fatal(err)
				}
				w.replicas = w.Min
				md := &machinev1alpha1.MachineDeployment{}
				w.mutate(md)
				for _, obj := range []any{w.renderSecret([]byte("user data")), w.renderClass(), md} {
					text, err := yaml.Marshal(obj)
					if err != nil {
						t.Fatal(err)
					}
					out.WriteString("---\n")
					out.Write(text)
				}
			}
			golden(t, name+".yaml", out.Bytes())
		})
	}
}

func TestRenderKeepsWhatOthersWrote(t *testing.T) {
	worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	pool := &extensionsv1alpha1.WorkerPool{
		Name: "p", KubernetesVersion: ptr.To("1.36.3"), NodeAgentSecretName: ptr.To("k"),
	}
	w, err := wanted(worker, &corev1beta1.Shoot{}, pool, 0, Machine{})
	if err != nil {
		t.Fatal(err)
	}
	md := &machinev1alpha1.MachineDeployment{}
	md.Annotations = map[string]string{"other": "stays", "autoscaler.gardener.cloud/scale-down-unneeded-time": "goes"}
	md.Spec.Template.Annotations = map[string]string{"rollout-workers": "now"}
	w.mutate(md)
	if diff := cmp.Diff(map[string]string{"other": "stays"}, md.Annotations); diff != "" {
		t.Errorf("annotations mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"rollout-workers": "now"}, md.Spec.Template.Annotations); diff != "" {
		t.Errorf("template annotations mismatch (-want +got):\n%s", diff)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s mismatch (-want +got), rewrite with -update:\n%s", name, diff)
	}
}
