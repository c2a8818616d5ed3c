package shoot

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	op := func(
		kind corev1beta1.LastOperationType, state corev1beta1.LastOperationState, ago time.Duration,
	) *corev1beta1.LastOperation {
		return &corev1beta1.LastOperation{Type: kind, State: state, LastUpdateTime: metav1.Time{Time: now.Add(-ago)}}
	}
	const (
		create    = corev1beta1.LastOperationTypeCreate
		reconcile = corev1beta1.LastOperationTypeReconcile
		migrate   = corev1beta1.LastOperationTypeMigrate
		restore   = corev1beta1.LastOperationTypeRestore
		remove    = corev1beta1.LastOperationTypeDelete

		day = 24 * time.Hour
	)
	restart := func(s *corev1beta1.Shoot) {
		s.Annotations = map[string]string{corev1beta1.AnnotationShootTasks: corev1beta1.ShootTaskRestartControlPlanePods}
	}
	for name, tc := range map[string]struct {
		spec, status string // Names of the Seeds.
		last         *corev1beta1.LastOperation
		change       func(*corev1beta1.Shoot)
		in           func(*DecideInput)
		want         Decision // Without Reason.
	}{
		"new": {spec: "s1", want: Decision{Action: Run, Operation: create, Begin: true}},
		"creation failed": {
			spec: "s1", status: "s1", last: op(create, "Error", 0),
			want: Decision{Action: Run, Operation: create},
		},
		"created an hour ago": {
			spec: "s1", status: "s1", last: op(create, "Succeeded", time.Hour),
			want: Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"created just now": {
			spec: "s1", status: "s1", last: op(create, "Succeeded", time.Minute),
			want: Decision{Action: Drop, RequeueAfter: 59 * time.Minute},
		},
		"task requested since": {
			spec: "s1", status: "s1", last: op(reconcile, "Succeeded", time.Minute),
			change: restart,
			want:   Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"task requested while it runs": {
			spec: "s1", status: "s1", last: op(reconcile, "Processing", 0),
			change: restart,
			want:   Decision{Action: Run, Operation: reconcile},
		},
		"changed": {
			spec: "s1", status: "s1", last: op(create, "Succeeded", 0),
			change: func(s *corev1beta1.Shoot) { s.Generation = 2 },
			want:   Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"changed while it runs": {
			spec: "s1", status: "s1", last: op(reconcile, "Processing", 0),
			change: func(s *corev1beta1.Shoot) { s.Generation = 2 },
			want:   Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"running": {
			spec: "s1", status: "s1", last: op(reconcile, "Processing", 0),
			want: Decision{Action: Run, Operation: reconcile},
		},
		"pending": {
			spec: "s1", last: op(create, "Pending", 0),
			want: Decision{Action: Run, Operation: create, Begin: true},
		},
		"failed": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 0),
			want: Decision{Action: Refresh, RequeueAfter: day},
		},
		"failed and healed": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 0),
			in:   func(in *DecideInput) { in.Healed = true },
			want: Decision{Action: Run, Operation: reconcile},
		},
		"failed, a new gardenlet": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 0),
			in:   func(in *DecideInput) { in.Version = "v2" },
			want: Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"to move, not ready": {
			spec: "s2", status: "s1", last: op(reconcile, "Succeeded", 0),
			want: Decision{Action: Refresh, RequeueAfter: seedPeriod},
		},
		"to move": {
			spec: "s2", status: "s1", last: op(reconcile, "Succeeded", 0), change: readyToMove,
			want: Decision{Action: Run, Operation: migrate, Begin: true},
		},
		"to be moved, failed before": {
			spec: "s2", status: "s1", last: op(reconcile, "Error", 0), change: readyToMove,
			want: Decision{Action: Run, Operation: migrate, Begin: true},
		},
		"moving": {
			spec: "s2", status: "s1", last: op(migrate, "Processing", 0),
			want: Decision{Action: Run, Operation: migrate},
		},
		"moving, source declared dead": {spec: "s2", status: "s1", last: op(migrate, "Processing", 0),
			change: func(s *corev1beta1.Shoot) {
				readyToMove(s)
				s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: "s1"}
			}, want: Decision{Action: Drop}},
		"moving, error": {
			spec: "s2", status: "s1", last: op(migrate, "Error", 0),
			want: Decision{Action: Run, Operation: migrate},
		},
		"moving, failed": {spec: "s2", status: "s1", last: op(migrate, "Failed", 0), want: Decision{Action: Refresh}},
		"cancelled": {
			spec: "s1", status: "s1", last: op(migrate, "Processing", 0),
			want: Decision{Action: Run, Operation: restore, Begin: true},
		},
		"cancelled, still running": {
			spec: "s1", status: "s1", last: op(restore, "Processing", 0),
			want: Decision{Action: Run, Operation: restore},
		},
		"another seed's": {spec: "s2", last: op(reconcile, "Succeeded", 0), want: Decision{Action: Drop}},
		"moved here": {
			spec: "s1", status: "s1", last: op(migrate, "Succeeded", 0),
			want: Decision{Action: Run, Operation: restore, Begin: true},
		},
		"restoring": {
			spec: "s1", status: "s1", last: op(restore, "Error", 0),
			want: Decision{Action: Run, Operation: restore},
		},
		"restored": {
			spec: "s1", status: "s1", last: op(restore, "Succeeded", time.Hour),
			want: Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"the seed is stopped": {
			spec: "s1", status: "s1", last: op(reconcile, "Succeeded", time.Hour),
			in:   func(in *DecideInput) { in.EmergencyStop = true },
			want: Decision{Action: Drop, RequeueAfter: time.Hour},
		},
		"to be deleted": {
			spec: "s1", status: "s1", last: op(create, "Succeeded", 0), change: deleted,
			want: Decision{Action: Run, Operation: remove, Begin: true},
		},
		"being deleted": {
			spec: "s1", status: "s1", last: op(remove, "Processing", 0), change: deleted,
			want: Decision{Action: Run, Operation: remove},
		},
		"deleted": {
			spec: "s1", status: "s1", last: op(remove, "Succeeded", 0), change: deleted,
			want: Decision{Action: Finalize, Operation: remove},
		},
		"deleted before its creation": {
			spec:   "s1",
			change: func(s *corev1beta1.Shoot) { deleted(s); s.Status.UID = "" },
			want:   Decision{Action: Finalize, Operation: remove},
		},
		"deleted on a lost seed": {spec: "s2", status: "s1", last: op(remove, "Processing", 0),
			change: func(s *corev1beta1.Shoot) {
				deleted(s)
				s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: "s1"}
			}, want: Decision{Action: Drop}},
		"deleted while it is to be moved": {
			spec: "s2", status: "s1", last: op(reconcile, "Succeeded", 0), change: deleted,
			want: Decision{Action: Run, Operation: remove, Begin: true},
		},
		"taken over, to be deleted": {
			spec: "s1", status: "s1", last: op(migrate, "Succeeded", 0), change: deleted,
			want: Decision{Action: Run, Operation: restore, Begin: true},
		},
		"taken over, to be deleted, hibernated": {spec: "s1", status: "s1", last: op(migrate, "Succeeded", 0),
			change: func(s *corev1beta1.Shoot) {
				deleted(s)
				s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(true)}
			}, want: Decision{Action: Run, Operation: restore, Begin: true}},
		"taken over, to be deleted by force": {spec: "s1", status: "s1", last: op(migrate, "Succeeded", 0),
			change: func(s *corev1beta1.Shoot) {
				deleted(s)
				s.Annotations = map[string]string{corev1beta1.AnnotationConfirmationForceDeletion: "true"}
			}, want: Decision{Action: Run, Operation: remove, Begin: true}},
		"deleted while it is restored": {
			spec: "s1", status: "s1", last: op(restore, "Processing", 0), change: deleted,
			want: Decision{Action: Run, Operation: restore},
		},
		"deleted while restoring has an error": {
			spec: "s1", status: "s1", last: op(restore, "Error", 0), change: deleted,
			want: Decision{Action: Run, Operation: restore},
		},
		"deleted when restoring has failed": {
			spec: "s1", status: "s1", last: op(restore, "Failed", 0), change: deleted,
			want: Decision{Action: Refresh, RequeueAfter: day},
		},
		"restored, to be deleted": {
			spec: "s1", status: "s1", last: op(restore, "Succeeded", 0), change: deleted,
			want: Decision{Action: Run, Operation: remove, Begin: true},
		},
		"deleted while it is created": {
			spec: "s1", status: "s1", last: op(create, "Processing", 0), change: deleted,
			want: Decision{Action: Run, Operation: remove, Begin: true},
		},
		"deleted while it is created, taken over": {spec: "s1", status: "s1", last: op(create, "Processing", 0),
			change: deleted,
			in:     func(in *DecideInput) { in.TakenOver = true }, want: Decision{Action: Run, Operation: create}},
		"created, taken over, to be deleted": {spec: "s1", status: "s1", last: op(create, "Succeeded", 0), change: deleted,
			in: func(in *DecideInput) { in.TakenOver = true }, want: Decision{Action: Run, Operation: remove, Begin: true}},
		"taken over, other seed responsible": {
			spec: "s1", status: "s1", last: op(migrate, "Succeeded", 0),
			change: func(s *corev1beta1.Shoot) { deleted(s); s.Finalizers = nil },
			want:   Decision{Action: Drop},
		},
		"deletion, other seed responsible": {
			spec: "s1", status: "s1",
			change: func(s *corev1beta1.Shoot) { deleted(s); s.Finalizers = nil },
			want:   Decision{Action: Drop},
		},

		"failed almost 30 days ago": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 30*day-time.Hour),
			want: Decision{Action: Refresh, RequeueAfter: time.Hour},
		},
		"failed 30 days ago": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 30*day),
			want: Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"creation failed 30 days ago": {
			spec: "s1", status: "s1", last: op(create, "Failed", 30*day),
			want: Decision{Action: Run, Operation: create, Begin: true},
		},
		"restoring failed 30 days ago": {
			spec: "s1", status: "s1", last: op(restore, "Failed", 30*day),
			want: Decision{Action: Run, Operation: restore, Begin: true},
		},
		"failed 30 days ago, the seed is stopped": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 30*day),
			in: func(in *DecideInput) { in.EmergencyStop = true }, want: Decision{Action: Drop, RequeueAfter: time.Hour},
		},
		"failed 30 days ago, ignored": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 30*day),
			change: func(s *corev1beta1.Shoot) {
				s.Annotations = map[string]string{corev1beta1.AnnotationShootIgnore: "true"}
			},
			in: func(in *DecideInput) { in.Options.RespectSyncPeriodOverwrite = true }, want: Decision{Action: Refresh},
		},
		"failed 30 days ago, confined to its window": {
			spec: "s1", status: "s1", last: op(reconcile, "Failed", 30*day),
			in:   func(in *DecideInput) { in.Options.InMaintenanceOnly = true },
			want: Decision{Action: Run, Operation: reconcile, Begin: true},
		},
		"deletion failed 30 days ago": {
			spec: "s1", status: "s1", last: op(remove, "Failed", 30*day), change: deleted, want: Decision{Action: Refresh},
		},
		"moving failed 30 days ago": {
			spec: "s2", status: "s1", last: op(migrate, "Failed", 30*day), change: readyToMove, want: Decision{Action: Refresh},
		},
		"deletion, the seed is stopped": {
			spec: "s1", status: "s1", last: op(remove, "Processing", 0), change: deleted,
			in: func(in *DecideInput) { in.EmergencyStop = true }, want: Decision{Action: Drop, RequeueAfter: time.Hour},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Generation: 1, Finalizers: []string{corev1beta1.FinalizerName}},
				Spec:       corev1beta1.ShootSpec{SeedName: ptr.To(tc.spec)},
				Status: corev1beta1.ShootStatus{
					UID: "u", ObservedGeneration: 1, LastOperation: tc.last, Gardener: corev1beta1.Gardener{Version: "v1"},
				},
			}
			if tc.status != "" {
				shoot.Status.SeedName = ptr.To(tc.status)
			}
			if tc.change != nil {
				tc.change(shoot)
			}
			in := DecideInput{
				SeedName: "s1", Now: now, Version: "v1",
				Options: maintenance.ReconcileOptions{SyncPeriod: time.Hour}, Jitter: maintenance.HashJitter(0),
			}
			if tc.in != nil {
				tc.in(&in)
			}
			got := Decide(shoot, in)
			got.Reason = ""
			if got != tc.want {
				t.Errorf("Decide() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func readyToMove(s *corev1beta1.Shoot) {
	s.Status.Constraints = []corev1beta1.Condition{{
		Type: corev1beta1.ShootReadyForMigration, Status: corev1beta1.ConditionTrue,
	}}
}

func deleted(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{Time: now} }

// Reasons to stop precede all reasons to reconcile, of which a healed failure is only one.
func TestDecideStopsAndHealing(t *testing.T) {
	const create, reconcile = corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeReconcile
	const remove = corev1beta1.LastOperationTypeDelete
	const failed, done = corev1beta1.LastOperationStateFailed, corev1beta1.LastOperationStateSucceeded
	const running = corev1beta1.LastOperationStateProcessing
	drop, refresh := Decision{Action: Drop}, Decision{Action: Refresh}
	resume := func(kind corev1beta1.LastOperationType) Decision { return Decision{Action: Run, Operation: kind} }
	begin := func(kind corev1beta1.LastOperationType) Decision {
		return Decision{Action: Run, Operation: kind, Begin: true}
	}
	for name, tc := range map[string]struct {
		kind                                 corev1beta1.LastOperationType
		state                                corev1beta1.LastOperationState
		deleted, unborn, moving, changed     bool
		stopped, ignored, healed, newVersion bool
		want                                 Decision // Without Reason and RequeueAfter.
	}{
		"healed":                          {kind: reconcile, state: failed, healed: true, want: resume(reconcile)},
		"healed, but the seed is stopped": {kind: reconcile, state: failed, healed: true, stopped: true, want: drop},
		"healed, but ignored":             {kind: reconcile, state: failed, healed: true, ignored: true, want: refresh},
		"healed and changed": {
			kind: reconcile, state: failed, healed: true, changed: true, want: begin(reconcile),
		},
		"creation healed":              {kind: create, state: failed, healed: true, want: resume(create)},
		"creation healed, but ignored": {kind: create, state: failed, healed: true, ignored: true, want: refresh},
		"healed without a failure":     {kind: reconcile, state: done, healed: true, want: drop},

		"done, a new gardenlet": {kind: reconcile, state: done, newVersion: true, want: begin(reconcile)},
		"done, a new gardenlet, but the seed is stopped": {
			kind: create, state: done, newVersion: true, stopped: true, want: drop,
		},
		"done, a new gardenlet, but ignored": {
			kind: create, state: done, newVersion: true, ignored: true, want: refresh,
		},

		"deletion, but the seed is stopped":         {kind: create, state: done, deleted: true, stopped: true, want: drop},
		"running deletion, but the seed is stopped": {kind: remove, state: running, deleted: true, stopped: true, want: drop},
		"deletion healed, but the seed is stopped": {
			kind: remove, state: failed, deleted: true, healed: true, stopped: true, want: drop,
		},
		"deletion before the creation, but the seed is stopped": {deleted: true, unborn: true, stopped: true, want: drop},
		"deletion while moving, but the seed is stopped": {
			kind: remove, state: running, deleted: true, moving: true, stopped: true, want: drop,
		},
		"deletion, but ignored": {kind: create, state: done, deleted: true, ignored: true, want: refresh},
		"deletion healed, but ignored": {
			kind: remove, state: failed, deleted: true, healed: true, ignored: true, want: refresh,
		},
		"deletion failed": {kind: remove, state: failed, deleted: true, want: refresh},
		"deletion healed": {kind: remove, state: failed, deleted: true, healed: true, want: resume(remove)},
		"deletion failed, a new gardenlet": {
			kind: remove, state: failed, deleted: true, newVersion: true, want: begin(remove),
		},
		"deletion healed, a new gardenlet": {
			kind: remove, state: failed, deleted: true, healed: true, newVersion: true, want: resume(remove),
		},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{
				ObjectMeta: metav1.ObjectMeta{Generation: 1, Finalizers: []string{corev1beta1.FinalizerName}},
				Spec:       corev1beta1.ShootSpec{SeedName: ptr.To("s1")},
				Status: corev1beta1.ShootStatus{
					UID: "u", ObservedGeneration: 1, SeedName: ptr.To("s1"), Gardener: corev1beta1.Gardener{Version: "v1"},
					LastOperation: &corev1beta1.LastOperation{Type: tc.kind, State: tc.state, LastUpdateTime: metav1.Time{Time: now}},
				},
			}
			if tc.deleted {
				deleted(shoot)
			}
			if tc.unborn {
				shoot.Status = corev1beta1.ShootStatus{}
			}
			if tc.moving {
				shoot.Spec.SeedName = ptr.To("s2")
			}
			if tc.changed {
				shoot.Generation = 2
			}
			if tc.ignored {
				shoot.Annotations = map[string]string{corev1beta1.AnnotationShootIgnore: "true"}
			}
			in := DecideInput{
				SeedName: "s1", Now: now, Version: "v1", EmergencyStop: tc.stopped, Healed: tc.healed,
				Jitter:  maintenance.HashJitter(0),
				Options: maintenance.ReconcileOptions{SyncPeriod: time.Hour, RespectSyncPeriodOverwrite: true},
			}
			if tc.newVersion {
				in.Version = "v2"
			}
			got := Decide(shoot, in)
			got.Reason, got.RequeueAfter = "", 0
			if got != tc.want {
				t.Errorf("Decide() = %+v, want %+v", got, tc.want)
			}
		})
	}
}
