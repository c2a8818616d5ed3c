package shootmutator

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	const infrastructure, dns = "deployInfrastructure",
		"deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress"
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
		"SSH access disabled": {shootWith(ssh(false)), shootWith(ssh(true)), infrastructure},
		"another domain": {
			shootWith(func(s *corev1beta1.Shoot) { s.Spec.DNS = &corev1beta1.DNS{Domain: ptr.To("a")} }), shootWith(), dns,
		},
		"a rotation of the keys": {
			shootWith(annotated(corev1beta1.AnnotationOperation, "rotate-ssh-keypair")), shootWith(), infrastructure,
		},
		"tasks that are there": {
			shootWith(hibernated(false), annotated(corev1beta1.AnnotationShootTasks, "restartCoreAddons,"+infrastructure)),
			shootWith(hibernated(true)), "restartCoreAddons," + infrastructure + "," + dns,
		},
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
	shoot := shootWith(func(s *corev1beta1.Shoot) {
		s.Spec.Networking = &corev1beta1.Networking{
			Pods: ptr.To("10.0.0.0/16"),
		}
	})
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

func TestCreate(t *testing.T) {
	given := func(period *metav1.Duration) *corev1beta1.Maintenance {
		return &corev1beta1.Maintenance{AutoRotation: &corev1beta1.MaintenanceAutoRotation{
			Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
				ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{RotationPeriod: period},
			}}}
	}
	for name, tc := range map[string]struct {
		maintenance *corev1beta1.Maintenance
		want        time.Duration
	}{
		"nothing is given":      {nil, 672 * time.Hour},
		"a block without value": {given(nil), 672 * time.Hour},
		"a period is given":     {given(&metav1.Duration{Duration: time.Hour}), time.Hour},
		"rotation is off":       {given(&metav1.Duration{}), 0},
	} {
		shoot := shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.Maintenance = tc.maintenance
			s.Annotations = map[string]string{corev1beta1.AnnotationCreatedBy: "somebody"}
		})
		if err := create(shoot, "alice"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := shoot.Spec.Maintenance.AutoRotation.Credentials.ETCDEncryptionKey.RotationPeriod.Duration; got != tc.want {
			t.Errorf("%s: the key is rotated every %s", name, got)
		}
		if got := shoot.Annotations[corev1beta1.AnnotationCreatedBy]; got != "alice" {
			t.Errorf("%s: creator is %q", name, got)
		}
		if got := strings.Split(shoot.Annotations[corev1beta1.AnnotationShootTasks], ","); len(got) != len(allDeployTasks) {
			t.Errorf("%s: tasks %v", name, got)
		}
	}
	shoot := shootWith(func(s *corev1beta1.Shoot) {
		s.Spec.CloudProfileName = ptr.To("a")
		s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "b"}
	})
	if err := create(shoot, "alice"); err == nil {
		t.Error("two profiles are accepted")
	}
}

func TestRetryOfAFailedShootInTheWindow(t *testing.T) {
	shoot := func(confine bool, purpose string, state corev1beta1.LastOperationState) *corev1beta1.Shoot {
		return shootWith(func(s *corev1beta1.Shoot) {
			s.Spec.Maintenance = &corev1beta1.Maintenance{ConfineSpecUpdateRollout: &confine}
			s.Spec.Purpose = ptr.To(corev1beta1.ShootPurpose(purpose))
			s.Status.LastOperation = &corev1beta1.LastOperation{State: state}
		})
	}
	for name, tc := range map[string]struct {
		now, old *corev1beta1.Shoot
		want     string
	}{
		"a change of a failed Shoot":     {shoot(true, "testing", "Failed"), shoot(true, "evaluation", "Failed"), "true"},
		"no change":                      {shoot(true, "testing", "Failed"), shoot(true, "testing", "Failed"), ""},
		"a Shoot that has not failed":    {shoot(true, "testing", "Error"), shoot(true, "evaluation", "Error"), ""},
		"changes are rolled out at once": {shoot(false, "testing", "Failed"), shoot(false, "evaluation", "Failed"), ""},
	} {
		update(tc.now, tc.old)
		if got := tc.now.Annotations[corev1beta1.AnnotationNeedsRetryOperation]; got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
