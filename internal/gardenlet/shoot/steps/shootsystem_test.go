package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestShootInfo(t *testing.T) {
	shoot := &corev1beta1.Shoot{}
	shoot.Name, shoot.Status.TechnicalID, shoot.Status.UID = "a", "shoot--dev--a", "uid"
	shoot.Spec.Region, shoot.Spec.Provider.Type, shoot.Spec.Kubernetes.Version = "west", "local", "1.36.3"
	shoot.Spec.Networking = &corev1beta1.Networking{
		Pods: ptr.To("100.96.0.0/11"), Services: ptr.To("100.64.0.0/13"), Nodes: ptr.To("10.250.0.0/16"),
	}
	s := &Values{
		Shoot: shoot, Project: &corev1beta1.Project{}, Namespace: "shoot--dev--a", GardenIdentity: "garden",
	}
	s.Project.Name = "dev"
	workerless := map[string]string{
		"clusterIdentity": "shoot--dev--a-uid-garden", "kubernetesVersion": "1.36.3", "projectName": "dev",
		"provider": "local", "region": "west", "serviceNetwork": "100.64.0.0/13", "shootName": "a",
	}
	if diff := cmp.Diff(workerless, shootInfo(s)); diff != "" {
		t.Errorf("shootInfo() of a small Shoot mismatch (-want +got):\n%s", diff)
	}

	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "a"}}
	shoot.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("a.example.com")}
	shoot.Spec.Extensions = []corev1beta1.Extension{{Type: "b"}, {Type: "a"}, {Type: "off", Disabled: ptr.To(true)}}
	shoot.Spec.Maintenance = &corev1beta1.Maintenance{
		TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0100", End: "230000+0100"},
	}
	shoot.Status.Networking = &corev1beta1.NetworkingStatus{Nodes: []string{"10.250.0.0/16"}}
	for key, value := range map[string]string{
		"podNetwork": "100.96.0.0/11", "nodeNetwork": "10.250.0.0/16", "domain": "a.example.com", "extensions": "a,b",
		"maintenanceBegin": "220000+0100", "maintenanceEnd": "230000+0100",
	} {
		workerless[key] = value
	}
	if diff := cmp.Diff(workerless, shootInfo(s)); diff != "" {
		t.Errorf("shootInfo() mismatch (-want +got):\n%s", diff)
	}
}

func TestDefinitions(t *testing.T) {
	for name, tc := range map[string]struct {
		autoscaler *corev1beta1.VerticalPodAutoscaler
		want       []string
	}{
		"the autoscaler is not set":  {nil, nil},
		"the autoscaler is disabled": {&corev1beta1.VerticalPodAutoscaler{}, nil},
		"the autoscaler is enabled": {&corev1beta1.VerticalPodAutoscaler{Enabled: true}, []string{
			"verticalpodautoscalers.autoscaling.k8s.io", "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
		}},
	} {
		shoot := &corev1beta1.Shoot{}
		shoot.Spec.Kubernetes.VerticalPodAutoscaler = tc.autoscaler
		var got []string
		for _, d := range definitions(shoot) {
			got = append(got, d.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: definitions() mismatch (-want +got):\n%s", name, diff)
		}
	}
}
