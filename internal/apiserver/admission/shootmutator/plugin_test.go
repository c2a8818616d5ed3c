package shootmutator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func shootWith(change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{Spec: corev1beta1.ShootSpec{Provider: corev1beta1.Provider{
		Workers: []corev1beta1.Worker{{Name: "p", Minimum: 2, Maximum: 2}},
	}}}
	for _, c := range change {
		c(s)
	}
	return s
}

func TestTasksOfAnUpdate(t *testing.T) {
	hibernated := func(yes bool) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &yes} }
	}
	ssh := func(yes bool) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) {
			s.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{SSHAccess: &corev1beta1.SSHAccess{Enabled: yes}}
		}
	}
	annotated := func(key, value string) func(*corev1beta1.Shoot) {
		return func(s *corev1beta1.Shoot) { s.Annotations = map[string]string{key: value} }
	}
	const infrastructure, dns = "deployInfrastructure", "deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress"
	for name, tc := range map[string]struct {
		now, old *corev1beta1.Shoot
		want     string
	}{
		"nothing":        {shootWith(), shootWith(), ""},
		"waking up":      {shootWith(hibernated(false)), shootWith(hibernated(true)), infrastructure + "," + dns},
		"falling asleep": {shootWith(hibernated(true)), shootWith(), ""},
		"another infrastructure": {shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte("{}")}
		}), shootWith(), infrastructure},
		"no SSH access any more": {shootWith(ssh(false)), shootWith(ssh(true)), infrastructure},
		"another domain":         {shootWith(func(s *corev1beta1.Shoot) { s.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("a")} }), shootWith(), dns},
		"a rotation of the keys": {shootWith(annotated(corev1beta1.AnnotationOperation, "rotate-ssh-keypair")), shootWith(), infrastructure},
		"tasks that are there":   {shootWith(hibernated(false), annotated(corev1beta1.AnnotationShootTasks, "restartCoreAddons,"+infrastructure)), shootWith(hibernated(true)), "restartCoreAddons," + infrastructure + "," + dns},
	} {
		update(tc.now, tc.old)
		if got := tc.now.Annotations[corev1beta1.AnnotationShootTasks]; got != tc.want {
			t.Errorf("%s: tasks %q, want %q", name, got, tc.want)
		}
	}
}

func TestNetworksFromSeed(t *testing.T) {
	seed := &corev1beta1.Seed{Spec: corev1beta1.SeedSpec{Networks: corev1beta1.SeedNetworks{
		ShootDefaults: &corev1beta1.ShootNetworks{Pods: ptr.To("100.96.0.0/16"), Services: ptr.To("100.64.0.0/16")},
	}}}
	shoot := shootWith(func(s *corev1beta1.Shoot) { s.Spec.Networking = &corev1beta1.Networking{Pods: ptr.To("10.0.0.0/16")} })
	networksFromSeed(shoot, seed)
	if *shoot.Spec.Networking.Pods != "10.0.0.0/16" || *shoot.Spec.Networking.Services != "100.64.0.0/16" {
		t.Errorf("networking %+v", shoot.Spec.Networking)
	}
	workerless := &corev1beta1.Shoot{}
	networksFromSeed(workerless, seed)
	if workerless.Spec.Networking.Pods != nil {
		t.Error("a Shoot without workers gets a range for pods")
	}
}

func TestNoEffect(t *testing.T) {
	shoot := shootWith(func(s *corev1beta1.Shoot) {
		s.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{}
		s.Spec.Kubernetes.ClusterAutoscaler = &corev1beta1.ClusterAutoscaler{}
		s.Spec.Provider.Workers[0].Maximum = 3
	})
	var got []string
	for _, text := range noEffect(shoot) {
		path, _, _ := strings.Cut(text, " has no effect: ")
		got = append(got, path)
	}
	if diff := cmp.Diff([]string{"spec.kubernetes.clusterAutoscaler", "spec.provider.workers[0].maximum"}, got); diff != "" {
		t.Errorf("noEffect() mismatch (-want +got):\n%s", diff)
	}
}
