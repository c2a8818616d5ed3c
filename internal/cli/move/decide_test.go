package move

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var now = time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)

// shoot is bound to one Seed and on one; the operation is such as "Restore Error".
func shoot(bound, on, operation string, change ...func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	s := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "demo", Generation: 2}}
	s.Status.ObservedGeneration = 2
	if bound != "" {
		s.Spec.SeedName = ptr.To(bound)
	}
	if on != "" {
		s.Status.SeedName = ptr.To(on)
	}
	if kind, state, found := strings.Cut(operation, " "); found {
		s.Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationType(kind), State: corev1beta1.LastOperationState(state), Progress: 40,
			Description: "All is said.", LastUpdateTime: metav1.NewTime(now),
		}
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func withError(age time.Duration) func(*corev1beta1.Shoot) {
	return func(s *corev1beta1.Shoot) {
		s.Status.LastErrors = []corev1beta1.LastError{{
			Description: "no quota", Codes: []corev1beta1.ErrorCode{"ERR_INFRA_QUOTA_EXCEEDED"},
			LastUpdateTime: &metav1.Time{Time: now.Add(-age)},
		}}
	}
}

func notObserved(s *corev1beta1.Shoot) { s.Generation++ }

func unreadyDestination(s *corev1beta1.Shoot) {
	s.Status.Constraints = []corev1beta1.Condition{{
		Type: corev1beta1.ShootReadyForMigration, Status: corev1beta1.ConditionFalse, Reason: "DestinationSeedUnready",
		Message: "No bucket.",
	}}
}

func dead(s *corev1beta1.Shoot) {
	s.Annotations = map[string]string{corev1beta1.AnnotationSourceIsDead: *s.Status.SeedName}
}

func deleted(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{Time: now} }

func TestProgress(t *testing.T) {
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		want  State
		parts []string // Of the message.
	}{
		"the destination is not ready": {
			shoot("b", "a", "Reconcile Succeeded", unreadyDestination, notObserved), Moving,
			[]string{"ReadyForMigration is False: DestinationSeedUnready: No bucket."}},
		"the source has not begun": {
			shoot("b", "a", "Reconcile Succeeded", notObserved), Moving, []string{"waiting for the gardenlet of Seed a"},
		},
		"the source is dead": {
			shoot("b", "a", "Reconcile Succeeded", notObserved, dead), Moving,
			[]string{"waiting for the gardenlet of Seed b to take over"}},
		"the source died on the way": {
			shoot("b", "a", "Migrate Processing", dead), Moving, []string{"Migrate Processing 40%: All is said."},
		},
		"the source works": {
			shoot("b", "a", "Migrate Processing"), Moving, []string{"Migrate Processing 40%: All is said."},
		},
		"the source has errors": {
			shoot("b", "a", "Migrate Error", withError(time.Hour)), Moving,
			[]string{"Migrate Error", "ERR_INFRA_QUOTA_EXCEEDED: no quota"}},
		"the source has given up": {
			shoot("b", "a", "Migrate Failed", withError(time.Hour)), Failed,
			[]string{"no quota", "hortus move shoot demo -n garden-dev --to a"}},
		"the source had given up an earlier move": {
			shoot("b", "a", "Migrate Failed", notObserved), Moving, []string{"waiting for the gardenlet of Seed a"},
		},
		"it is handed over": {
			shoot("b", "b", "Migrate Succeeded"), Moving, []string{"waiting for the gardenlet of Seed b to take over"},
		},
		"the destination works": {
			shoot("b", "b", "Restore Processing"), Moving, []string{"Restore Processing 40%"},
		},
		"the destination has a new error": {
			shoot("b", "b", "Restore Error", withError(time.Minute)), Moving, []string{"no quota"},
		},
		"the destination has an old error": {
			shoot("b", "b", "Restore Error", withError(errorPatience)), Failed,
			[]string{"no quota", "hortus move shoot demo -n garden-dev --to SEED"}},
		"the destination has given up":    {shoot("b", "b", "Restore Failed"), Failed, []string{"--to SEED"}},
		"the destination has restored it": {shoot("b", "b", "Restore Succeeded"), Moved, nil},
		"the destination reconciles it already": {
			shoot("b", "b", "Reconcile Processing"), Moving, []string{"Reconcile Processing"},
		},
		"the destination has reconciled it": {shoot("b", "b", "Reconcile Succeeded"), Moved, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := progressOf(tc.shoot, now)
			if got.state != tc.want {
				t.Errorf("state is %s (%s), want %s", got.state, got.message, tc.want)
			}
			for _, part := range tc.parts {
				if !strings.Contains(got.message, part) {
					t.Errorf("message is %q, want %q in it", got.message, part)
				}
			}
			if got.state == Moved && got.message != "" {
				t.Errorf("message is %q, want none", got.message)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	const here = "here"
	for name, tc := range map[string]struct {
		member member
		dead   bool
		want   State
		ready  bool
		part   string
	}{
		"on the Seed": {
			member: member{shoot: shoot(here, here, "Reconcile Succeeded")}, want: Waiting, ready: true,
		},
		"on the Seed with an error": {
			member: member{shoot: shoot(here, here, "Reconcile Failed")}, want: Waiting, ready: true,
		},
		"stranded on the Seed": {
			member: member{shoot: shoot(here, here, "Restore Error")}, want: Waiting, ready: true,
		},
		"just restored on the Seed": {
			member: member{shoot: shoot(here, here, "Restore Succeeded")}, want: Waiting, ready: true,
		},
		"being restored on the Seed": {
			member: member{shoot: shoot(here, here, "Restore Processing")}, want: Waiting, part: "an earlier move",
		},
		"handed over to the Seed": {
			member: member{shoot: shoot(here, here, "Migrate Succeeded")}, want: Waiting, part: "an earlier move",
		},
		"moving to the Seed": {
			member: member{shoot: shoot(here, "x", "Migrate Processing")}, want: Waiting, part: "--to x",
		},
		"moving to the Seed, which is dead": {
			member: member{shoot: shoot(here, "x", "Migrate Processing")}, dead: true, want: Left, part: "--to x",
		},
		"moving away by somebody else": {member: member{shoot: shoot("x", here, "Migrate Processing")}, want: Moving},
		"moved away by somebody else":  {member: member{shoot: shoot("x", "x", "Restore Succeeded")}, want: Moved},
		"stuck on its way from a dead Seed": {
			member: member{shoot: shoot("x", here, "Migrate Processing")}, dead: true, want: Waiting, ready: true,
			part: "x already"},
		"declared dead already": {
			member: member{shoot: shoot("x", here, "Migrate Processing", dead)}, dead: true, want: Moving,
		},
		"declared dead just now": {
			member: member{shoot: shoot("x", here, "Migrate Processing"), begun: true}, dead: true, want: Moving,
		},
		"on a dead Seed": {
			member: member{shoot: shoot(here, here, "Reconcile Processing")}, dead: true, want: Waiting, ready: true,
		},
		"cancelled": {
			member: member{shoot: shoot(here, here, "Restore Processing"), begun: true}, want: Failed, part: "cancelled",
		},
		"not created yet": {member: member{shoot: shoot(here, "", "")}, want: Left, part: "being created"},
		"being created": {
			member: member{shoot: shoot(here, here, "Create Processing")}, want: Left, part: "being created",
		},
		"created": {
			member: member{shoot: shoot(here, here, "Create Succeeded")}, want: Waiting, ready: true,
		},
		"being deleted": {
			member: member{shoot: shoot(here, here, "Delete Processing", deleted)}, want: Left, part: "being deleted",
		},
		"being deleted while it moves": {
			member: member{shoot: shoot("x", here, "Migrate Failed", deleted)}, want: Left, part: "being deleted",
		},
		"being created on a dead Seed": {
			member: member{shoot: shoot(here, here, "Create Processing")}, dead: true, want: Waiting, ready: true,
		},
		"not begun on a dead Seed": {member: member{shoot: shoot(here, "", "")}, dead: true, want: Waiting, ready: true},
		"restored by a dead Seed": {
			member: member{shoot: shoot(here, here, "Restore Processing")}, dead: true, want: Waiting, ready: true,
		},
		"being deleted on a dead Seed": {
			member: member{shoot: shoot(here, here, "Delete Processing", deleted)}, dead: true, want: Waiting, ready: true,
		},
		"declared dead, to be deleted": {
			member: member{shoot: shoot("x", here, "Delete Processing", deleted, dead)}, dead: true, want: Moving,
		},
		"restored, to be deleted": {
			member: member{shoot: shoot("x", "x", "Restore Processing", deleted), begun: true}, dead: true, want: Moving,
		},
		"restored, being deleted": {
			member: member{shoot: shoot("x", "x", "Delete Processing", deleted), begun: true}, dead: true, want: Moved,
		},
		"restored and deleted": {member: member{begun: true}, dead: true, want: Moved},
		"bound anew, not begun": {
			member: member{shoot: shoot("x", "", ""), begun: true}, dead: true, want: Moving, part: "Seed x to begin",
		},
		"deleted": {member: member{}, want: Left, part: "has been deleted"},
		"refused": {
			member: member{shoot: shoot(here, here, "Reconcile Succeeded"), refused: "full"}, want: Failed, part: "full",
		},
		"without a place to go": {
			member: member{shoot: shoot(here, here, "Reconcile Succeeded"), noSeed: "none fits"}, want: Failed,
			part: "none fits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ready := judge(limits{seed: here, sourceIsDead: tc.dead}, tc.member, now)
			if got.state != tc.want || ready != tc.ready || !strings.Contains(got.message, tc.part) {
				t.Errorf("judge() = %+v, %v; want %s, %v, %q", got, ready, tc.want, tc.ready, tc.part)
			}
		})
	}
}

func TestNext(t *testing.T) {
	const here = "here"
	on := func(name, to string) member {
		return member{
			key: types.NamespacedName{Namespace: "garden-dev", Name: name}, shoot: shoot(here, here,
				"Reconcile Succeeded"), to: to,
		}
	}
	as := func(name string, s *corev1beta1.Shoot) member {
		return member{key: types.NamespacedName{Namespace: "garden-dev", Name: name}, shoot: s}
	}
	moving, moved := shoot("x", here, "Migrate Processing"), shoot("x", "x", "Restore Succeeded")
	failed, arriving := shoot("x", "x", "Restore Failed"), shoot(here, "y", "Migrate Processing")
	nowhere := on("n", "")
	nowhere.noSeed = "none fits"
	for name, tc := range map[string]struct {
		members       []member
		choose, begin string
		states        string
		done, stopped bool
	}{
		"nothing to do": {done: true},
		"no more than may move": {
			members: []member{on("a", "x"), on("b", "x"), on("c", "x")}, begin: "a b", states: "Waiting Waiting Waiting",
		},
		"those under way count": {
			members: []member{as("a", moving), on("b", "x"), on("c", "x")}, begin: "b", states: "Moving Waiting Waiting",
		},
		"all places are taken": {
			members: []member{as("a", moving), as("b", moving), on("c", "x")}, states: "Moving Moving Waiting",
		},
		"destinations are chosen": {
			members: []member{on("a", ""), on("b", "x"), on("c", "")}, choose: "a c", begin: "b",
			states: "Waiting Waiting Waiting",
		},
		"the end": {members: []member{
			as("a", moved), as("b", failed),
		}, states: "Moved Failed", done: true},
		"one failure is endured": {
			members: []member{as("a", failed), on("b", "x")}, begin: "b", states: "Failed Waiting",
		},
		"two are not": {
			members: []member{
				as("a", failed), as("b", failed), on("c", "x"),
			}, states: "Failed Failed Waiting", stopped: true, done: true,
		},
		"what is under way ends": {
			members: []member{as("a", failed), as("b", failed), as("c", moving), on("d", "x")},
			states:  "Failed Failed Moving Waiting", stopped: true,
		},
		"no place to go is no reason": {
			members: []member{nowhere, nowhere, on("x", "x")}, begin: "x", states: "Failed Failed Waiting",
		},
		"who arrives is waited for": {members: []member{as("a", arriving)}, states: "Waiting"},
		"unless it stops": {
			members: []member{as("a", arriving), as("b", failed), as("c", failed)}, states: "Waiting Failed Failed",
			stopped: true, done: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := next(limits{seed: here, parallel: 2, failures: 2}, tc.members, now)
			var states []string
			for _, s := range p.states {
				states = append(states, string(s.state))
			}
			got := fmt.Sprint(names(p.choose), "|", names(p.begin), "|", strings.Join(states, " "), "|", p.done, p.stopped)
			if diff := cmp.Diff(fmt.Sprint(tc.choose, "|", tc.begin, "|", tc.states, "|", tc.done, tc.stopped),
				got); diff != "" {
				t.Errorf("choose, begin, states, done, stopped differ (-want +got):\n%s", diff)
			}
		})
	}
}

func names(keys []types.NamespacedName) string {
	var out []string
	for _, key := range keys {
		out = append(out, key.Name)
	}
	return strings.Join(out, " ")
}

// TestDrainEnds plays moves that take one look each, in a fleet with failures: never are more under way than allowed,
// nothing is begun after the last allowed failure, and it ends.
func TestDrainEnds(t *testing.T) {
	const here = "here"
	for parallel := 1; parallel <= 4; parallel++ {
		for failEvery := 2; failEvery <= 5; failEvery++ {
			l := limits{seed: here, parallel: parallel, failures: 3}
			var members []member
			for i := range 20 {
				members = append(members, member{
					key: types.NamespacedName{Name: fmt.Sprintf("s%02d", i)}, shoot: shoot(here, here, "Reconcile Succeeded"), to: "x",
				})
			}
			p := next(l, members, now)
			for looks := 0; !p.done; looks++ {
				if looks > 100 {
					t.Fatal("it does not end")
				}
				under := 0
				for i := range members {
					m := &members[i]
					switch {
					case p.states[i].state == Moving && i%failEvery == 0:
						m.shoot = shoot("x", "x", "Restore Failed")
					case p.states[i].state == Moving:
						m.shoot = shoot("x", "x", "Restore Succeeded")
					case slices.Contains(p.begin, m.key):
						m.shoot, m.begun = shoot("x", here, "Migrate Processing"), true
						under++
					}
				}
				if under > parallel || p.stopped && under > 0 {
					t.Fatalf("%d are begun, %d may be; stopped: %v", under, parallel, p.stopped)
				}
				p = next(l, members, now)
			}
			if !p.stopped {
				t.Errorf("parallel %d, every %d. fails: it has not stopped", parallel, failEvery)
			}
		}
	}
}

func TestBindingPatch(t *testing.T) {
	s := shoot("b", "a", "")
	for dead, want := range map[bool]string{
		false: `{"spec":{"seedName":"c"}}`,
		true:  `{"metadata":{"annotations":{"hortus.dev/source-is-dead":"a"}},"spec":{"seedName":"c"}}`,
	} {
		if got, err := bindingPatch(s, "c", dead); err != nil || string(got) != want {
			t.Errorf("bindingPatch() = %s, %v; want %s", got, err, want)
		}
	}
}

func TestNeedsRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		shoot *corev1beta1.Shoot
		dead  bool
		want  bool
		err   string
	}{
		"another Seed":                        {shoot: shoot("a", "a", "Reconcile Succeeded"), want: true},
		"a third Seed, which the API refuses": {shoot: shoot("c", "a", "Migrate Processing"), want: true},
		"bound already":                       {shoot: shoot("b", "a", "Migrate Processing")},
		"there already":                       {shoot: shoot("b", "b", "Reconcile Succeeded")},
		"bound already, the source has died":  {shoot: shoot("b", "a", "Migrate Processing"), dead: true, want: true},
		"declared dead already":               {shoot: shoot("b", "a", "Migrate Processing", dead), dead: true},
		"there already, whatever died":        {shoot: shoot("b", "b", "Reconcile Succeeded"), dead: true},
		"cancelled with a dead source": {
			shoot: shoot("a", "b", "Migrate Processing"), dead: true, err: "--source-is-dead: ",
		},
		"no control plane": {shoot: shoot("a", "", ""), err: "no control plane yet"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&command{to: "b", sourceIsDead: tc.dead}).needsRequest(tc.shoot)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("needsRequest() = %v, %v; want %v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	for typed, good := range map[string]bool{"demo\n": true, " demo": true, "other\n": false, "": false, "y\n": false} {
		var out strings.Builder
		if err := confirm(t.Context(), strings.NewReader(typed), &out, "demo", "move it"); (err == nil) != good {
			t.Errorf("%q gives %v", typed, err)
		}
	}
}

func TestSignOfLife(t *testing.T) {
	for name, tc := range map[string]struct {
		sign sign
		want []string
		not  string
	}{
		"alive": {sign{"a", now.Add(-time.Second), nil}, []string{"renewed 1s ago", "WARNING", "no condition"}, "no Lease"},
		"dead": {
			sign{
				"a", now.Add(-freshLease), &corev1beta1.Condition{Type: "GardenletReady", Status: "Unknown", Message: "Silent."},
			},
			[]string{"renewed 2m0s ago", "GardenletReady is Unknown: Silent.", "5 minutes"}, "WARNING"},
		"never seen": {sign{seed: "a"}, []string{"no Lease", "last backup"}, "WARNING"},
	} {
		got := tc.sign.describe(now)
		for _, part := range tc.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in\n%s", name, part, got)
			}
		}
		if strings.Contains(got, tc.not) {
			t.Errorf("%s: %q is in\n%s", name, tc.not, got)
		}
	}
}
