package plan

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/fleet"
	"hortus.dev/hortus/internal/maintenance"
)

// landscape is a realistic garden: five minor versions with several patch versions each that expire one after the
// other, a monthly machine image, and Shoots that are slightly outdated, a third of them with nightly hibernation.
func landscape(shoots int) *fleet.Fleet {
	start := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	date := func(days int) *metav1.Time { return &metav1.Time{Time: start.AddDate(0, 0, days)} }
	class := func(c corev1beta1.VersionClassification) *corev1beta1.VersionClassification { return &c }
	profile := &corev1beta1.CloudProfile{}
	profile.Name = "large"
	for minor := range 12 {
		for patch := range 4 {
			v := corev1beta1.ExpirableVersion{
				Version: fmt.Sprintf("1.%d.%d", 28+minor, patch), Classification: class("deprecated"),
			}
			if minor < 11 {
				v.ExpirationDate = date(20 + 75*minor + 15*patch)
			}
			if patch == 3 {
				v.Classification = class("supported")
			}
			profile.Spec.Kubernetes.Versions = append(profile.Spec.Kubernetes.Versions, v)
		}
	}
	strategy := corev1beta1.UpdateStrategyMinor
	image := corev1beta1.MachineImage{Name: "os", UpdateStrategy: &strategy}
	for month := range 30 {
		v := corev1beta1.MachineImageVersion{Architectures: []string{"amd64", "arm64"}}
		v.Version = fmt.Sprintf("%d.%d.0", 1500+month/6, month%6)
		if month < 26 {
			v.ExpirationDate = date(10 + 30*month)
		}
		image.Versions = append(image.Versions, v)
	}
	profile.Spec.MachineImages = []corev1beta1.MachineImage{image}
	profile.Spec.MachineTypes = []corev1beta1.MachineType{{Name: "small"}}
	o := &fleet.Fleet{CloudProfiles: []corev1beta1.CloudProfile{*profile}}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range shoots {
		s := &corev1beta1.Shoot{}
		s.Namespace, s.Name = fmt.Sprintf("garden-p%d", i%700), fmt.Sprintf("s%d", i)
		s.CreationTimestamp = metav1.NewTime(start.AddDate(0, 0, -rng.IntN(300)))
		s.Spec.CloudProfile = &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "large"}
		s.Spec.Kubernetes.Version = fmt.Sprintf("1.%d.%d", 28+rng.IntN(3), rng.IntN(4))
		hour := rng.IntN(23)
		s.Spec.Maintenance = &corev1beta1.Maintenance{
			TimeWindow: &corev1beta1.MaintenanceTimeWindow{
				Begin: fmt.Sprintf("%02d0000+0000", hour), End: fmt.Sprintf("%02d0000+0000", hour+1),
			},
			AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{KubernetesVersion: rng.IntN(2) == 0},
			AutoRotation: &corev1beta1.MaintenanceAutoRotation{Credentials: &corev1beta1.MaintenanceCredentialsAutoRotation{
				ETCDEncryptionKey: &corev1beta1.MaintenanceRotationConfig{
					RotationPeriod: &metav1.Duration{Duration: 672 * time.Hour},
				}}},
		}
		if rng.IntN(3) == 0 {
			begin, end, zone := fmt.Sprintf("0 %d * * 1,2,3,4,5", 18+rng.IntN(4)),
				fmt.Sprintf("%d %d * * 1,2,3,4,5", 15*rng.IntN(4), 6+rng.IntN(3)), "Europe/Berlin"
			s.Spec.Hibernation = &corev1beta1.Hibernation{Schedules: []corev1beta1.HibernationSchedule{{
				Start: &begin, End: &end, Location: &zone,
			}}}
		}
		for pool := range 1 + rng.IntN(4) {
			version := fmt.Sprintf("1500.%d.0", rng.IntN(3))
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, corev1beta1.Worker{
				Name:    fmt.Sprintf("pool-%d", pool),
				Machine: corev1beta1.Machine{Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: &version}},
			})
		}
		o.Shoots = append(o.Shoots, *s)
	}
	return o
}

// BenchmarkTwoYears plans two years of 20,000 Shoots. The limits are 5 s on two processors and 500 MB.
func BenchmarkTwoYears(b *testing.B) {
	at := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	for b.Loop() {
		b.StopTimer()
		o := landscape(20000)
		b.StartTimer()
		p := Make(Prepare(o, at), Options{At: at, Until: at.AddDate(2, 0, 0), Jitter: maintenance.HashJitter(0)})
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		changes := 0
		for i := range p.Shoots {
			changes += len(p.Shoots[i].Changes)
		}
		b.ReportMetric(float64(changes), "changes")
		b.ReportMetric(float64(m.Sys)/(1<<20), "MB-sys")
	}
}
