package maintenance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
)

func TestWarnings(t *testing.T) {
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	version := func(text string, class corev1beta1.VersionClassification, days int) corev1beta1.ExpirableVersion {
		v := corev1beta1.ExpirableVersion{Version: text, Classification: &class}
		if days != 0 {
			v.ExpirationDate = ptr(metav1.NewTime(now.AddDate(0, 0, days)))
		}
		return v
	}
	profile, err := cloudprofile.Compile("p", &corev1beta1.CloudProfileSpec{
		Kubernetes: corev1beta1.KubernetesSettings{Versions: []corev1beta1.ExpirableVersion{
			version("1.36.3", "supported", 0), version("1.36.1", "deprecated", 0),
			version("1.35.4", "supported", 60), version("1.34.4", "supported", 200), version("1.33.9", "deprecated", 30),
			version("1.32.9", "deprecated", -1),
		}},
		MachineImages: []corev1beta1.MachineImage{{Name: "os", Versions: []corev1beta1.MachineImageVersion{
			{ExpirableVersion: version("1.1.0", "supported", 0)}, {ExpirableVersion: version("1.0.0", "deprecated", 30)},
		}}},
		MachineTypes: []corev1beta1.MachineType{{Name: "small"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shoot := func(kubernetes, pool, image string, auto bool) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{}
		s.Spec.Kubernetes.Version = kubernetes
		s.Spec.Maintenance = &corev1beta1.Maintenance{AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{
			KubernetesVersion: auto, MachineImageVersion: &auto,
		}}
		s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "w", Machine: corev1beta1.Machine{
			Type: "small", Architecture: ptr("amd64"), Image: &corev1beta1.ShootMachineImage{Name: "os", Version: &image},
		}}}
		if pool != "" {
			s.Spec.Provider.Workers[0].Kubernetes = &corev1beta1.WorkerKubernetes{Version: &pool}
		}
		return s
	}
	for name, tc := range map[string]struct {
		shoot, old *corev1beta1.Shoot
		want       []string
	}{
		"the newest":            {shoot("1.36.3", "", "1.1.0", true), nil, nil},
		"an unknown version":    {shoot("1.36.2", "", "1.9.0", true), nil, nil},
		"an expiry that is far": {shoot("1.34.4", "", "1.1.0", false), nil, nil},
		"deprecated": {
			shoot("1.36.1", "", "1.1.0", false), nil, []string{"spec.kubernetes.version: 1.36.1 is deprecated"},
		},
		"deprecated, updated anyway": {
			shoot("1.36.1", "", "1.1.0", true), nil,
			[]string{"spec.kubernetes.version: 1.36.1 is deprecated; the next maintenance updates it to 1.36.3"},
		},
		"an expiry that is near": {
			shoot("1.35.4", "", "1.1.0", true), nil, []string{
				"spec.kubernetes.version: 1.35.4 expires at 2026-07-31T00:00:00Z; the maintenance after it updates to 1.36.3",
			},
		},
		"an existing one has expired": {
			shoot("1.32.9", "", "1.1.0", false), shoot("1.32.9", "", "1.0.0", false), []string{
				"spec.kubernetes.version: 1.32.9 expired at 2026-05-31T00:00:00Z; the next maintenance updates it to 1.33.9",
			},
		},
		"pools": {shoot("1.35.4", "1.33.9", "1.0.0", false), nil, []string{
			"spec.kubernetes.version: 1.35.4 expires at 2026-07-31T00:00:00Z; the maintenance after it updates to 1.36.3",
			"spec.provider.workers[0].kubernetes.version: 1.33.9 is deprecated and expires at 2026-07-01T00:00:00Z; the maintenance after it updates to 1.34.4",
			"spec.provider.workers[0].machine.image: os 1.0.0 is deprecated and expires at 2026-07-01T00:00:00Z; the maintenance after it updates to 1.1.0",
		}},
		"nothing changes": {shoot("1.36.1", "", "1.0.0", false), shoot("1.36.1", "", "1.0.0", false), nil},
	} {
		if diff := cmp.Diff(tc.want, Warnings(tc.shoot, tc.old, profile, now)); diff != "" {
			t.Errorf("%s: Warnings() mismatch (-want +got):\n%s", name, diff)
		}
	}
}
