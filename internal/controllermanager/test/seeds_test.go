package test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/controllerregistration"
	seedcontroller "hortus.dev/hortus/internal/controllermanager/seed"
	"hortus.dev/hortus/test/sim"
)

func clockOf(*sim.Process) clock.PassiveClock { return clock.RealClock{} } // The time of the bubble.

// A seed whose gardenlet has stopped reporting becomes Unknown, and so do its Shoots; a seed that reports does not.
func TestSimulateSeedLifecycle(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&seedcontroller.Lifecycle{
			Garden: p.GetClient(), Live: p.GetAPIReader(), Clock: clockOf(p),
		}).SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		lost, alive, s := seed("lost"), seed("alive"), shoot("s")
		s.Status.SeedName = new("lost")
		s.Status.Conditions = []corev1beta1.Condition{{Type: "APIServerAvailable", Status: corev1beta1.ConditionTrue}}
		lease := named[coordinationv1.Lease]("gardener-system-seed-lease", "alive")
		lease.Spec.RenewTime = &metav1.MicroTime{Time: w.Clock().Now()}
		garden.Add(lost, alive, s, lease)
		renew := func(context.Context, client.Client) error {
			if garden.Exists(lease) &&
				(lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > 10*time.Second) {
				return garden.Edit(lease, func() { lease.Spec.RenewTime = &metav1.MicroTime{Time: w.Clock().Now()} })
			}
			return nil
		}
		w.Actor("the gardenlet renews its lease", garden, renew)
		unknown := func(s *corev1beta1.Seed) bool {
			c := corev1beta1.FindCondition(s.Status.Conditions, "GardenletReady")
			return garden.Exists(s) && c != nil && c.Status == corev1beta1.ConditionUnknown
		}
		silent := false // Ever, for longer than the controller allows.
		w.Always("a seed that reports is not Unknown, however old the cache is", func() error {
			silent = silent || garden.Exists(lease) && w.Clock().Since(lease.Spec.RenewTime.Time) >= 40*time.Second
			return is(silent || !unknown(alive), "%+v", alive.Status)
		})
		w.Faults(80)
		w.Eventually(400, "the lost seed and its Shoot are Unknown", func() error {
			return is(garden.Exists(lost) && unknown(lost) && garden.Exists(s) &&
				s.Status.Conditions[0].Status == corev1beta1.ConditionUnknown &&
				garden.Exists(named[corev1.Namespace]("", "seed-lost")),
				"%+v, %+v", lost.Status, s.Status)
		})
	})
}

// The condition summarizes the buckets, even if others write conditions, too.
func TestSimulateBackupBucketsOfSeeds(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&seedcontroller.BackupBuckets{Garden: p.GetClient(), Clock: clockOf(p)}).SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s, b := seed("a"), named[corev1beta1.BackupBucket]("", "b")
		s.Spec.Backup = &corev1beta1.Backup{Provider: "local"}
		b.Spec.SeedName = new("a")
		garden.Add(s)
		w.Change("make a bucket", garden, create(b.DeepCopy()))
		w.Change("the gardenlet replaces conditions", garden, func(context.Context, client.Client) error {
			return garden.EditStatus(s, func() {
				s.Status.Conditions = []corev1beta1.Condition{{Type: "GardenletReady", Status: corev1beta1.ConditionTrue}}
			})
		})
		w.Change("the bucket succeeds", garden, func(context.Context, client.Client) error {
			return garden.EditStatus(b, func() {
				b.Status.LastOperation = &corev1beta1.LastOperation{State: corev1beta1.LastOperationStateSucceeded}
			})
		})
		w.Faults(100)
		w.Eventually(50, "the buckets are ready, the gardenlet's condition is there", func() error {
			garden.Exists(s)
			c := corev1beta1.FindCondition(s.Status.Conditions, corev1beta1.SeedBackupBucketsReady)
			return is(c != nil && c.Status == corev1beta1.ConditionTrue &&
				corev1beta1.FindCondition(s.Status.Conditions, "GardenletReady") != nil, "%+v", s.Status.Conditions)
		})
	})
}

// Extensions that the Shoots of a seed need are installed, and a seed is removed only after all of them.
func TestSimulateControllerRegistrations(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return (&controllerregistration.Reconciler{Garden: p.GetClient(), Live: p.GetAPIReader()}).SetupWithManager(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		registration := func(name, kind string) *corev1beta1.ControllerRegistration {
			r := named[corev1beta1.ControllerRegistration]("", name)
			r.Spec.Resources = []corev1beta1.ControllerResource{{
				Kind: kind, Type: name, ClusterCompatibility: []corev1beta1.ClusterType{corev1beta1.ClusterTypeShoot},
			}}
			r.Spec.Deployment = &corev1beta1.ControllerRegistrationDeployment{
				DeploymentRefs: []corev1beta1.DeploymentRef{{Name: name}},
			}
			return r
		}
		s, using := seed("a"), shoot("s")
		s.Spec.DNS.Provider = &corev1beta1.SeedDNSProvider{Type: "dns"}
		using.Spec.SeedName = new("a")
		using.Spec.Extensions = []corev1beta1.Extension{{Type: "ext"}}
		installed := func(name string) bool {
			return garden.Exists(named[corev1beta1.ControllerInstallation]("", name+"-a"))
		}
		w.Always("no installation is left without its seed", func() error {
			return is(garden.Exists(seed("a")) || !installed("dns") && !installed("ext"), "the seed is removed too early")
		})
		w.Change("register", garden, create(registration("dns", "DNSRecord")))
		w.Change("register", garden, create(registration("ext", "Extension")))
		s.Finalizers = []string{"core.gardener.cloud/controllerregistration"}
		w.Change("make a Shoot", garden, create(using.DeepCopy()))
		garden.Add(s.DeepCopy())
		w.Faults(100)
		w.Eventually(100, "both are installed", func() error { return is(installed("dns") && installed("ext"), "missing") })
		w.Change("deploy something else", garden, func(context.Context, client.Client) error {
			r := named[corev1beta1.ControllerRegistration]("", "dns")
			return garden.Edit(r, func() { r.Spec.Deployment.DeploymentRefs[0].Name = "newer" })
		})
		w.Faults(40)
		w.Eventually(100, "the installation refers to it", func() error {
			i := named[corev1beta1.ControllerInstallation]("", "dns-a")
			return is(garden.Exists(i) && i.Spec.DeploymentRef.Name == "newer", "it refers to %+v", i.Spec.DeploymentRef)
		})
		w.Change("delete the Shoot", garden, remove(shoot("s")))
		w.Faults(40)
		w.Eventually(100, "the extension of the Shoot is gone", func() error {
			return is(installed("dns") && !installed("ext"), "dns %t, ext %t", installed("dns"), installed("ext"))
		})
		if w.Random.IntN(2) == 0 {
			w.Change("make a Shoot", garden, create(using.DeepCopy()))
			w.Change("delete the Shoot", garden, remove(shoot("s")))
		}
		w.Change("delete the seed", garden, remove(s))
		w.Faults(80)
		w.Eventually(100, "the seed is gone", func() error { return garden.Gone(seed("a")) })
	})
}
