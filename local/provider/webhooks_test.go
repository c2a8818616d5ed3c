package provider

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/golden"
)

// TestMachinesHaveTheirController: the machine-controller-manager that the gardenlet deploys gets the controller with
// the driver of this provider as a sidecar, and keeps one when it is written again.
func TestMachinesHaveTheirController(t *testing.T) {
	objects := machinecontrollermanager.Render(machinecontrollermanager.Values{
		Namespace: "shoot--dev--a", Image: "hortus.dev/hortus:1", Replicas: 1, Size: component.Small,
		Access: component.ClientAccess{CASecret: "ca-bundle-1", CertSecret: "machine-controller-manager-1"},
	})
	deployment := objects[len(objects)-1].(*appsv1.Deployment)
	core := deployment.Spec.Template.Spec.Containers[0].DeepCopy()
	for _, image := range []string{"hortus.dev/hortus:1", "hortus.dev/hortus:2"} {
		if changed, err := withMachineController(image)(t.Context(), "shoot--dev--a", deployment); err != nil || !changed {
			t.Fatalf("changed %t, %v", changed, err)
		}
	}
	containers := deployment.Spec.Template.Spec.Containers
	if len(containers) != 2 || !equality.Semantic.DeepEqual(containers[0], *core) {
		t.Fatalf("containers %+v, want the one that was there, and the sidecar", containers)
	}
	if containers[1].Image != "hortus.dev/hortus:2" {
		t.Errorf("image %q of an earlier version", containers[1].Image)
	}
	golden.Objects(t, "machine-controller", deployment)
}

func TestContentsFollowThePool(t *testing.T) {
	reserved := func(memory string) *corev1beta1.KubeletConfig {
		return &corev1beta1.KubeletConfig{
			KubeReserved: &corev1beta1.KubeletConfigReserved{Memory: ptr.To(resource.MustParse(memory))},
		}
	}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.Kubelet = reserved("1Gi")
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{
		{Name: "like-the-shoot"},
		{Name: "own", Kubernetes: &corev1beta1.WorkerKubernetes{Kubelet: reserved("2Gi")}},
	}
	raw, err := json.Marshal(shoot)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shoot--a--b"}}
	cluster.Spec.Shoot = runtime.RawExtension{Raw: raw}
	change := inContainer(fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(cluster).Build())

	object := func(pool string) *extensionsv1alpha1.OperatingSystemConfig {
		o := &extensionsv1alpha1.OperatingSystemConfig{}
		o.Labels = map[string]string{corev1beta1.LabelWorkerPool: pool}
		o.Spec.Files = []extensionsv1alpha1.File{{
			Path: extensionsv1alpha1.KubeletConfigFile,
			Content: extensionsv1alpha1.FileContent{
				Inline: &extensionsv1alpha1.FileContentInline{Data: "kubeReserved:\n  memory: 1Gi\n"},
			},
		}}
		return o
	}
	for pool, memory := range map[string]string{"like-the-shoot": "1Gi", "own": "2Gi", "being-deleted": "1Gi"} {
		o := object(pool)
		if changed, err := change(t.Context(), "shoot--a--b", o); err != nil || !changed {
			t.Errorf("pool %s: changed %t, %v", pool, changed, err)
		}
		if got := o.Spec.Files[0].Content.Inline.Data; !strings.Contains(got, "memory: "+memory+"\n") {
			t.Errorf("pool %s does not reserve %s:\n%s", pool, memory, got)
		}
	}
	if changed, err := change(t.Context(), "shoot--gone", object("own")); err != nil || changed {
		t.Errorf("a Shoot that is gone: changed %t, %v", changed, err)
	}
	broken := object("own")
	broken.Spec.Files[0].Content.Inline.Data = "- no\n- object\n"
	if _, err := change(t.Context(), "shoot--a--b", broken); err == nil {
		t.Error("unreadable contents are accepted")
	}
}
