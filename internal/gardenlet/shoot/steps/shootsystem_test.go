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
