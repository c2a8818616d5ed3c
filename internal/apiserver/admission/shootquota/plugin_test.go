package shootquota

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/golden"
)

func TestNeeds(t *testing.T) {
	profile := &corev1beta1.CloudProfileSpec{
		MachineTypes: []corev1beta1.MachineType{
			{Name: "small", CPU: resource.MustParse("2"), GPU: resource.MustParse("0"), Memory: resource.MustParse("4Gi")},
			{Name: "disk", CPU: resource.MustParse("1"), GPU: resource.MustParse("1"), Memory: resource.MustParse("1Gi"),
				Storage: &corev1beta1.MachineTypeStorage{Class: "premium", StorageSize: ptr.To(resource.MustParse("10Gi"))}},
		},
		VolumeTypes: []corev1beta1.VolumeType{{Name: "ssd", Class: "standard"}},
	}
	shoot := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{
		Addons: &corev1beta1.Addons{NginxIngress: &corev1beta1.NginxIngress{Addon: corev1beta1.Addon{Enabled: true}}},
		Provider: corev1beta1.Provider{Workers: []corev1beta1.Worker{
			{Machine: corev1beta1.Machine{Type: "small"}, Minimum: 1, Maximum: 3,
				Volume: &corev1beta1.Volume{Type: ptr.To("ssd"), VolumeSize: "20Gi"}},
			{Machine: corev1beta1.Machine{Type: "disk"}, Maximum: 2},
			{Machine: corev1beta1.Machine{Type: "gone"}, Maximum: 9},
		}},
	}}
	got := map[corev1.ResourceName]string{}
	for name, quantity := range needs(shoot, profile) {
		got[name] = quantity.String()
	}
	want := map[corev1.ResourceName]string{
		"cpu": "8", "gpu": "2", "memory": "14Gi", "storage.standard": "60Gi", "storage.premium": "20Gi", "loadbalancer": "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("needs() mismatch (-want +got):\n%s", diff)
	}
}

func TestExcessAndLifetime(t *testing.T) {
	quota := &corev1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "small"},
		Spec: corev1beta1.QuotaSpec{
			Metrics:             corev1.ResourceList{"cpu": resource.MustParse("8"), "loadbalancer": resource.MustParse("1")},
			ClusterLifetimeDays: ptr.To[int32](2),
		}}
	if err := excess(corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("1Ti")},
		quota); err != nil {
		t.Errorf("within the quota: %v", err)
	}
	messages := map[string]error{
		"beyond the quota":        excess(corev1.ResourceList{"cpu": resource.MustParse("8001m")}, quota),
		"too many load balancers": excess(corev1.ResourceList{"loadbalancer": resource.MustParse("2")}, quota),
	}
	if err := messages["beyond the quota"]; err == nil || !strings.Contains(err.Error(), "quota limits exceeded") {
		t.Errorf("beyond the quota: %v", err)
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for written, ok := range map[string]bool{
		"": true, "2030-01-03T00:00:00Z": true, "2030-01-03T00:00:01Z": false, "tomorrow": false,
	} {
		shoot := &corev1beta1.Shoot{
			ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{corev1beta1.AnnotationShootExpirationTimestamp: written},
			},
		}
		err := lifetimeProblem(shoot, quota, now)
		if (err == nil) != ok {
			t.Errorf("expiration %q: %v", written, err)
		}
		messages["expiration "+written] = err
	}
	golden.Messages(t, messages)
}

func TestRises(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	for name, tc := range map[string]struct {
		needed, before corev1.ResourceList
		want           bool
	}{
		"the same":              {list("2", "4Gi"), list("2000m", "4096Mi"), false},
		"less":                  {list("1", "4Gi"), list("2", "8Gi"), false},
		"less of one, more":     {list("1", "9Gi"), list("2", "8Gi"), true},
		"what was not there":    {list("1", "1Gi"), nil, true},
		"nothing is needed now": {nil, list("1", "1Gi"), false},
	} {
		if got := rises(tc.needed, tc.before); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
