package operatingsystemconfig

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
)

// Only machines of pools that request gVisor have its programs, and only for as long as they request it.
func TestPoolsWithContainerRuntime(t *testing.T) {
	cluster := &extension.Cluster{Shoot: &corev1beta1.Shoot{}}
	cluster.Shoot.Spec.Provider.Workers = []corev1beta1.Worker{
		{Name: "plain"}, {Name: "sandboxed", CRI: &corev1beta1.CRI{}},
	}
	cri := cluster.Shoot.Spec.Provider.Workers[1].CRI
	files := func(osc *extensionsv1alpha1.OperatingSystemConfig) int {
		t.Helper()
		if _, err := (&Actuator{}).Reconcile(t.Context(), osc, cluster); err != nil {
			t.Fatal(err)
		}
		return len(osc.Status.ExtensionFiles)
	}
	of := func(pool string) *extensionsv1alpha1.OperatingSystemConfig {
		return &extensionsv1alpha1.OperatingSystemConfig{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1beta1.LabelWorkerPool: pool}},
			Spec: extensionsv1alpha1.OperatingSystemConfigSpec{
				Purpose: extensionsv1alpha1.OperatingSystemConfigPurposeReconcile,
			},
		}
	}
	plain, sandboxed := of("plain"), of("sandboxed")
	for _, tc := range []struct {
		name string
		when []corev1beta1.ContainerRuntime
		want int
	}{
		{"not requested", nil, 0},
		{"requested", []corev1beta1.ContainerRuntime{{Type: "gvisor"}}, 3},
		{"another one", []corev1beta1.ContainerRuntime{{Type: "kata"}}, 0},
	} {
		cri.ContainerRuntimes = tc.when
		if got := files(sandboxed); got != tc.want {
			t.Errorf("%s: %d files, want %d", tc.name, got, tc.want)
		}
		if got := files(plain); got != 0 {
			t.Errorf("%s: %d files on machines of another pool", tc.name, got)
		}
	}
}
