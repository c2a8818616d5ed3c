package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// State is the progress of a Shoot's move.
type State string

const (
	Waiting State = "Waiting" // Not begun.
	Moving  State = "Moving"
	Moved   State = "Moved"
	Failed  State = "Failed" // Somebody has to act.
	Left    State = "Left"   // The Shoot stays, which is no failure.
)

// progress is the state of one Shoot's move, with a message for the user.
type progress struct {
	state   State
	message string
}

// errorPatience is how long a destination may report the same error. Most errors are gone in the next pass of the
// gardenlet, or when the prerequisites of an extension object exist.
const errorPatience = 5 * time.Minute

// progressOf returns the progress of a Shoot that is bound to the destination of its move.
func progressOf(shoot *corev1beta1.Shoot, now time.Time) progress {
	to, on, op := ptr.Deref(shoot.Spec.SeedName, ""), ptr.Deref(shoot.Status.SeedName, ""), shoot.Status.LastOperation
	migrating := op != nil && op.Type == corev1beta1.LastOperationTypeMigrate
	begun := migrating && shoot.Generation == shoot.Status.ObservedGeneration
	switch {
	case on == "":
		return progress{Moving, fmt.Sprintf("waiting for the gardenlet of Seed %s to begin", to)}
	case on != to && begun && op.State == corev1beta1.LastOperationStateFailed:
		return progress{Failed, fmt.Sprintf("%s To cancel the move: %s", operation(shoot), moveCommand(shoot, on))}
	case on != to && begun:
		return progress{Moving, operation(shoot)}
	case on != to && shoot.SourceIsDead():
		return progress{Moving, cmp.Or(notReady(shoot), fmt.Sprintf("waiting for the gardenlet of Seed %s to take over", to))}
	case on != to:
		return progress{Moving, cmp.Or(notReady(shoot), fmt.Sprintf("waiting for the gardenlet of Seed %s to begin", on))}
	case op == nil, migrating:
		return progress{Moving, fmt.Sprintf("waiting for the gardenlet of Seed %s to take over", to)}
	case op.State == corev1beta1.LastOperationStateSucceeded, op.Type == corev1beta1.LastOperationTypeDelete:
		return progress{Moved, ""} // A Shoot is restored before it is deleted.
	case op.State == corev1beta1.LastOperationStateFailed,
		op.State == corev1beta1.LastOperationStateError && lasts(shoot, now):
		text := "%s The control plane can move to another Seed, also back: %s"
		return progress{Failed, fmt.Sprintf(text, operation(shoot), moveCommand(shoot, "SEED"))}
	}
	return progress{Moving, operation(shoot)}
}

func moveCommand(shoot *corev1beta1.Shoot, to string) string {
	return fmt.Sprintf("hortus move shoot %s -n %s --to %s", shoot.Name, shoot.Namespace, to)
}

// notReady returns why the destination is not ready, "" if it is.
func notReady(shoot *corev1beta1.Shoot) string {
	c := corev1beta1.FindCondition(shoot.Status.Constraints, corev1beta1.ShootReadyForMigration)
	if c == nil || c.Status == corev1beta1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf("%s is %s: %s: %s", c.Type, c.Status, c.Reason, c.Message)
}

// operation describes the last operation and its errors.
func operation(shoot *corev1beta1.Shoot) string {
	op := shoot.Status.LastOperation
	text := fmt.Sprintf("%s %s %d%%", op.Type, op.State, op.Progress)
	if op.Description != "" {
		text += ": " + strings.TrimSuffix(op.Description, ".")
	}
	text += "."
	for _, e := range shoot.Status.LastErrors {
		codes := ""
		for _, code := range e.Codes {
			codes += " " + string(code)
		}
		if codes == "" && strings.Contains(op.Description, e.Description) {
			continue
		}
		text += fmt.Sprintf(" Error%s: %s.", codes, strings.TrimSuffix(e.Description, "."))
	}
	return text
}

// lasts reports whether the operation or any of its errors has not changed for errorPatience.
func lasts(shoot *corev1beta1.Shoot, now time.Time) bool {
	since := shoot.Status.LastOperation.LastUpdateTime.Time
	for _, e := range shoot.Status.LastErrors {
		if e.LastUpdateTime != nil && e.LastUpdateTime.Time.Before(since) {
			since = e.LastUpdateTime.Time
		}
	}
	return now.Sub(since) >= errorPatience
}

// limits are the flags of a drain.
type limits struct {
	seed         string
	parallel     int
	failures     int
	sourceIsDead bool
}

// member is a Shoot of a drain: its current state and what the drain has done with it.
type member struct {
	key   types.NamespacedName
	shoot *corev1beta1.Shoot // Nil if it has been deleted.
	// to is the chosen destination, "" if none has been chosen.
	to string
	// noSeed is why there is no destination; refused is why the API server has rejected the move.
	noSeed, refused string
	// begun is true if this drain has bound the Shoot.
	begun bool
}

// plan is the next action of a drain.
type plan struct {
	// states of the members, in their order.
	states []progress
	// choose lists the Shoots that need a destination; begin lists the Shoots to move next.
	choose, begin []types.NamespacedName
	// done is true if no move is in progress and none will be started.
	done bool
	// stopped is true if too many moves have failed to start more.
	stopped bool
}

// next decides the next action of a drain. members are sorted by key.
func next(l limits, members []member, now time.Time) plan {
	p := plan{states: make([]progress, len(members))}
	ready := make([]bool, len(members))
	moving, failed, waiting := 0, 0, 0
	for i, m := range members {
		p.states[i], ready[i] = judge(l, m, now)
		switch p.states[i].state {
		case Moving:
			moving++
		case Failed:
			if m.noSeed == "" { // Without a destination no move has failed.
				failed++
			}
		case Waiting:
			waiting++
		}
	}
	p.stopped = failed >= l.failures
	for i, m := range members {
		switch {
		case !ready[i]:
		case p.stopped:
			p.states[i].message = fmt.Sprintf("not begun: %d Shoots have failed", failed)
		case m.to == "" && ptr.Deref(m.shoot.Spec.SeedName, "") == l.seed:
			p.choose = append(p.choose, m.key)
		case moving < l.parallel:
			p.begin = append(p.begin, m.key)
			moving++
		}
	}
	p.done = moving == 0 && (waiting == 0 || p.stopped)
	return p
}

// judge returns the progress of a member, and whether its move can be started now.
func judge(l limits, m member, now time.Time) (p progress, ready bool) {
	shoot := m.shoot
	switch {
	case shoot == nil && m.begun && l.sourceIsDead:
		return progress{Moved, ""}, false // Its destination has restored and then deleted it.
	case shoot == nil:
		return progress{Left, "it has been deleted"}, false
	case shoot.DeletionTimestamp != nil && !l.sourceIsDead:
		return progress{Left, "it is being deleted"}, false
	case m.noSeed != "":
		return progress{Failed, m.noSeed}, false
	case m.refused != "":
		return progress{Failed, m.refused}, false
	}
	bound, on, op := ptr.Deref(shoot.Spec.SeedName, ""), ptr.Deref(shoot.Status.SeedName, ""), shoot.Status.LastOperation
	switch {
	case (on == "" || creating(op)) && !l.sourceIsDead:
		return progress{Left, "it is still being created; drain the Seed again when it has been"}, false
	case on == "" && bound == l.seed:
		return progress{Waiting, ""}, !m.begun
	case bound == l.seed && on != l.seed && l.sourceIsDead:
		text := "it is on Seed %s and bound to this one. To cancel: %s"
		return progress{Left, fmt.Sprintf(text, on, moveCommand(shoot, on))}, false
	case bound == l.seed && on != l.seed:
		text := "it is moving here from Seed %s and moves on when it has arrived. To cancel: %s"
		return progress{Waiting, fmt.Sprintf(text, on, moveCommand(shoot, on))}, false
	case bound == l.seed && m.begun:
		return progress{Failed, "the move has been cancelled: the Shoot is bound to the Seed again"}, false
	case bound == l.seed && busy(op) && !l.sourceIsDead:
		return progress{Waiting, "an earlier move has to end first: " + operation(shoot)}, false
	case bound == l.seed:
		return progress{Waiting, ""}, true
	case on == l.seed && l.sourceIsDead && !shoot.SourceIsDead() && !m.begun:
		return progress{Waiting, "it is bound to Seed " + bound + " already"}, true
	}
	return progressOf(shoot, now), false
}

func creating(op *corev1beta1.LastOperation) bool {
	return op != nil && op.Type == corev1beta1.LastOperationTypeCreate &&
		op.State != corev1beta1.LastOperationStateSucceeded
}

// busy reports whether the API server rejects a move because another one is in progress.
func busy(op *corev1beta1.LastOperation) bool {
	if op == nil {
		return false
	}
	stranded := op.State == corev1beta1.LastOperationStateError || op.State == corev1beta1.LastOperationStateFailed
	return op.Type == corev1beta1.LastOperationTypeMigrate ||
		op.Type == corev1beta1.LastOperationTypeRestore && op.State != corev1beta1.LastOperationStateSucceeded && !stranded
}

// concerns reports whether a Shoot is part of the drain of a Seed.
func concerns(seed string, shoot *corev1beta1.Shoot) bool {
	return ptr.Deref(shoot.Spec.SeedName, "") == seed || ptr.Deref(shoot.Status.SeedName, "") == seed
}

func sortKeys(keys []types.NamespacedName) {
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
