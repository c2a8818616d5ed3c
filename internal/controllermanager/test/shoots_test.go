package test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/controllermanager/shoot/hibernation"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	"hortus.dev/hortus/internal/controllermanager/shoot/migration"
	"hortus.dev/hortus/internal/controllermanager/shoot/quota"
	"hortus.dev/hortus/internal/controllermanager/shoot/reference"
	"hortus.dev/hortus/internal/controllermanager/shoot/retry"
	"hortus.dev/hortus/internal/controllermanager/shoot/statuslabel"
	decision "hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/test/sim"
)

// A maintenance updates expired versions and keeps concurrent changes by users.
func TestSimulateMaintenance(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		r := &maintenance.Reconciler{
			Garden: p.GetClient(), Clock: clockOf(p), Jitter: decision.HashJitter(1), Recorder: p.GetEventRecorder(""),
			Profiles: &maintenance.Profiles{},
		}
		return withSyncs(r.AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		profile := named[corev1beta1.CloudProfile]("", "p")
		expired := now(w)
		profile.Spec.Kubernetes.Versions = []corev1beta1.ExpirableVersion{
			{Version: "1.36.3", Classification: new(corev1beta1.ClassificationSupported)},
			{Version: "1.35.4", Classification: new(corev1beta1.ClassificationDeprecated), ExpirationDate: &expired},
		}
		s := shoot("s")
		s.Spec.CloudProfileName = new("p")
		s.Spec.Kubernetes.Version = "1.35.4"
		s.Spec.Maintenance = &corev1beta1.Maintenance{
			AutoUpdate: &corev1beta1.MaintenanceAutoUpdate{KubernetesVersion: true},
			TimeWindow: &corev1beta1.MaintenanceTimeWindow{Begin: "220000+0000", End: "230000+0000"},
		}
		garden.Add(profile, s)
		changed := false
		w.Always("the user's change stays", func() error {
			current := shoot("s")
			return is(!changed || garden.Exists(current) && current.Spec.Purpose != nil, "purpose is gone")
		})
		w.Change("request a maintenance", garden, func(context.Context, client.Client) error {
			return garden.Edit(s, func() {
				s.Annotations = map[string]string{corev1beta1.AnnotationOperation: corev1beta1.OperationMaintain}
			})
		})
		w.Change("set the purpose", garden, func(context.Context, client.Client) error {
			changed = true
			return garden.Edit(s, func() { s.Spec.Purpose = new(corev1beta1.ShootPurposeTesting) })
		})
		w.Faults(80)
		w.Eventually(100, "the version is updated", func() error {
			garden.Exists(s)
			return is(s.Spec.Kubernetes.Version == "1.36.3" && s.Status.LastMaintenance != nil &&
				s.Annotations[corev1beta1.AnnotationOperation] != corev1beta1.OperationMaintain, "%+v", s)
		})
	})
}

// A schedule hibernates a Shoot. If a user wakes it up afterwards, it stays awake until the next scheduled time.
func TestSimulateHibernation(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		r := &hibernation.Reconciler{
			Garden: p.GetClient(), Clock: clockOf(p), Recorder: p.GetEventRecorder(""), TriggerDeadline: 2 * time.Hour,
		}
		return withSyncs(r.AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s := shoot("s")
		nightly := corev1beta1.HibernationSchedule{Start: new("0 20 * * *")}
		s.Spec.Hibernation = &corev1beta1.Hibernation{Schedules: []corev1beta1.HibernationSchedule{nightly}}
		garden.Add(s.DeepCopy())
		asleep := func(s *corev1beta1.Shoot) bool {
			return garden.Exists(s) && s.Spec.Hibernation.Enabled != nil && *s.Spec.Hibernation.Enabled
		}
		// A process that stops between its two writes cannot know of changes by users meanwhile.
		noted := func(s *corev1beta1.Shoot) bool { return s.Status.LastHibernationTriggerTime != nil }
		woken, nextTime := false, w.Clock().Now().Add(44*time.Hour)
		w.Always("it stays awake after a user has woken it up", func() error {
			return is(!woken || !asleep(shoot("s")) || w.Clock().Now().After(nextTime), "it is hibernated again")
		})
		w.Idle(20*time.Hour - time.Second)
		w.Actor("somebody wakes it up", garden, func(context.Context, client.Client) error {
			if asleep(s) && noted(s) && !woken {
				if err := garden.Edit(s, func() { s.Spec.Hibernation.Enabled = new(false) }); err != nil {
					return err
				}
				woken = true
			}
			return nil
		})
		w.Faults(80)
		w.Eventually(20, "it was hibernated and woken up", func() error { return is(woken, "%+v", s.Status) })
	})
}

// A Shoot is deleted when its lifetime is over, but not one whose lifetime was extended, nor a new one with the same
// name.
func TestSimulateQuotas(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		r := &quota.Reconciler{
			Garden: p.GetClient(), Live: p.GetAPIReader(), Clock: clockOf(p), SyncPeriod: 24 * time.Hour,
		}
		return withSyncs(r.AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		q, b := named[corev1beta1.Quota]("garden-dev", "q"), named[corev1beta1.SecretBinding]("garden-dev", "b")
		q.Spec.ClusterLifetimeDays = new(int32(2))
		b.Quotas = []corev1.ObjectReference{{Name: "q"}}
		bound := func(name string) *corev1beta1.Shoot {
			s := shoot(name)
			s.Spec.SecretBindingName = new("b")
			return s
		}
		garden.Add(q, b, bound("over"), bound("prolonged"), bound("again"))
		w.Idle(2*24*time.Hour - time.Minute)
		prolonged, again, until := false, false, w.Clock().Now().Add(24*time.Hour)
		w.Always("Shoots with remaining lifetime exist", func() error {
			if w.Clock().Now().After(until) {
				return nil
			}
			if s := shoot("prolonged"); prolonged && !garden.Exists(s) {
				return is(false, "the extended Shoot is deleted")
			}
			return is(!again || garden.Exists(shoot("again")), "the new Shoot is deleted")
		})
		w.Change("prolong", garden, func(context.Context, client.Client) error {
			s := shoot("prolonged")
			if !garden.Exists(s) {
				return nil
			}
			prolonged = true
			return garden.Edit(s, func() {
				later := w.Clock().Now().Add(48 * time.Hour).Format(time.RFC3339)
				s.Annotations[corev1beta1.AnnotationShootExpirationTimestamp] = later
			})
		})
		w.Change("delete", garden, remove(shoot("again")))
		w.Change("make anew", garden, func(ctx context.Context, c client.Client) error {
			again = true
			return c.Create(ctx, bound("again"))
		})
		w.Idle(time.Minute - 10*time.Second)
		w.Faults(120)
		w.Eventually(100, "the expired Shoot is gone", func() error { return garden.Gone(shoot("over")) })
	})
}

// Objects have a finalizer as long as a Shoot refers to them.
func TestSimulateReferences(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return withSyncs((&reference.Reconciler{Garden: p.GetClient(), Live: p.GetAPIReader()}).AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		using := func(name, secret string) *corev1beta1.Shoot {
			s := shoot(name)
			s.Spec.Resources = []corev1beta1.NamedResourceReference{{Name: "r"}}
			s.Spec.Resources[0].ResourceRef.Kind, s.Spec.Resources[0].ResourceRef.Name = "Secret", secret
			s.Spec.Resources[0].ResourceRef.APIVersion = "v1"
			return s
		}
		garden.Add(secret("one"), secret("two"))
		w.Change("make Shoot a", garden, create(using("a", "one")))
		w.Change("make Shoot b", garden, create(using("b", "one")))
		w.Change("Shoot a takes another", garden, func(context.Context, client.Client) error {
			s := shoot("a")
			return garden.Edit(s, func() { s.Spec.Resources[0].ResourceRef.Name = "two" })
		})
		w.Change("delete Shoot b", garden, remove(shoot("b")))
		w.Faults(120)
		w.Eventually(100, "only the secret of Shoot a is protected", func() error {
			one, two := secret("one"), secret("two")
			garden.Exists(one)
			garden.Exists(two)
			return is(len(one.Finalizers) == 0 &&
				slices.Contains(two.Finalizers, corev1beta1.FinalizerReferenceProtection),
				"%v, %v", one.Finalizers, two.Finalizers)
		})
		w.Change("delete Shoot a", garden, remove(shoot("a")))
		w.Faults(40)
		w.Eventually(100, "nothing is protected", func() error {
			two := secret("two")
			garden.Exists(two)
			return is(len(two.Finalizers) == 0 && !garden.Exists(shoot("a")), "%v", two.Finalizers)
		})
	})
}

// A Shoot that has hit a rate limit is retried once, after a while.
func TestSimulateRetries(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return withSyncs((&retry.Reconciler{
			Garden: p.GetClient(), Clock: clockOf(p), Period: 10 * time.Minute, MaxJitter: time.Minute,
			Jitter: decision.HashJitter(1),
		}).AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s := shoot("s")
		garden.Add(s.DeepCopy())
		failed := time.Time{}
		w.Change("fail", garden, func(context.Context, client.Client) error {
			failed = w.Clock().Now()
			return garden.EditStatus(s, func() {
				s.Status.ObservedGeneration = s.Generation
				s.Status.LastOperation = &corev1beta1.LastOperation{
					State: corev1beta1.LastOperationStateFailed, LastUpdateTime: now(w),
				}
				s.Status.LastErrors = []corev1beta1.LastError{{Codes: []corev1beta1.ErrorCode{
					corev1beta1.ErrorInfraRateLimitsExceeded,
				}}}
			})
		})
		asked := func(s *corev1beta1.Shoot) bool {
			return garden.Exists(s) && s.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRetry
		}
		w.Always("nothing is retried too early", func() error {
			since := w.Clock().Since(failed)
			return is(!asked(shoot("s")) || since >= 10*time.Minute-time.Second, "%s", since)
		})
		w.Faults(60)
		w.Eventually(20, "a retry is requested", func() error { return is(asked(s), "%v", s.Annotations) })
	})
}

// The constraint follows the move, and others' constraints stay.
func TestSimulateMigrations(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return withSyncs((&migration.Reconciler{Garden: p.GetClient(), Clock: clockOf(p)}).AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s, to := shoot("s"), seed("b")
		s.Spec.SeedName, s.Status.SeedName = new("a"), new("a")
		garden.Add(s.DeepCopy(), to.DeepCopy())
		const hibernates = corev1beta1.ConditionType("HibernationPossible")
		cared := false
		w.Always("constraints of others stay", func() error {
			current := shoot("s")
			return is(!cared ||
				garden.Exists(current) && corev1beta1.FindCondition(current.Status.Constraints, hibernates) != nil,
				"%+v", current.Status.Constraints)
		})
		w.Change("move", garden, func(context.Context, client.Client) error {
			return garden.Edit(s, func() { s.Spec.SeedName = new("b") })
		})
		w.Change("care", garden, func(context.Context, client.Client) error {
			defer func() { cared = true }()
			return garden.EditStatus(s, func() {
				s.Status.Constraints = append(s.Status.Constraints,
					corev1beta1.Condition{Type: hibernates, Status: corev1beta1.ConditionTrue})
			})
		})
		w.Faults(80)
		constraint := func() *corev1beta1.Condition {
			garden.Exists(s)
			return corev1beta1.FindCondition(s.Status.Constraints, corev1beta1.ShootReadyForMigration)
		}
		w.Eventually(50, "the constraint is there", func() error { return is(constraint() != nil, "%+v", s.Status) })
		w.Change("arrive", garden, func(context.Context, client.Client) error {
			return garden.EditStatus(s, func() { s.Status.SeedName = new("b") })
		})
		w.Faults(30)
		w.Eventually(50, "the constraint is gone", func() error { return is(constraint() == nil, "%+v", s.Status) })
	})
}

// The label follows the status.
func TestSimulateStatusLabels(t *testing.T) {
	simulate(t, func(p *sim.Process) error {
		return withSyncs((&statuslabel.Reconciler{Garden: p.GetClient()}).AddToManager)(p)
	}, func(w *sim.World, garden *sim.Cluster) {
		s := shoot("s")
		for _, state := range []corev1beta1.LastOperationState{
			corev1beta1.LastOperationStateFailed, corev1beta1.LastOperationStateSucceeded,
			corev1beta1.LastOperationStateFailed,
		} {
			w.Change(string(state), garden, func(context.Context, client.Client) error {
				return garden.EditStatus(s, func() {
					s.Status.LastOperation = &corev1beta1.LastOperation{Type: "Reconcile", State: state}
				})
			})
		}
		garden.Add(s.DeepCopy())
		w.Faults(100)
		w.Eventually(50, "the label says unhealthy", func() error {
			garden.Exists(s)
			return is(s.Labels[corev1beta1.LabelShootStatus] == corev1beta1.ShootStatusUnhealthy, "%v", s.Labels)
		})
	})
}
