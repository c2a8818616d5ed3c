package explain

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

// OfShoot explains the state of a Shoot at a time.
func OfShoot(f *ShootFacts, now time.Time) *Explanation {
	e := &Explanation{
		Kind: "Shoot", Namespace: f.Shoot.Namespace, Name: f.Shoot.Name, State: state(f.Shoot.Status.LastOperation, now),
		Notes: notes(f.Shoot, now), Unread: f.Unread, Problems: []Problem{},
	}
	e.Problems = append(e.Problems, hindrances(f, now)...)
	causes := causesOf(f, now)
	e.Problems = append(e.Problems, conditions(f.Shoot, causes)...)
	e.Problems = append(e.Problems, constraints(f.Shoot)...)
	e.Problems = append(e.Problems, operation(f.Shoot, causes)...)
	e.Problems = append(e.Problems, causes.takeAll()...) // What no condition shows yet.
	return e
}

func state(last *corev1beta1.LastOperation, now time.Time) string {
	if last == nil {
		return "No operation has begun."
	}
	progress := ""
	if last.State != corev1beta1.LastOperationStateSucceeded {
		progress = fmt.Sprintf(" at %d %%", last.Progress)
	}
	return fmt.Sprintf("Operation %s: %s%s, %s ago: %s",
		last.Type, last.State, progress, age(last.LastUpdateTime.Time, now), sentence(last.Description))
}

func notes(shoot *corev1beta1.Shoot, now time.Time) (out []string) {
	switch asleep := shoot.HibernationEnabled(); {
	case asleep && shoot.Status.IsHibernated:
		out = append(out, "The Shoot is hibernated: it has no machines, and its API server does not run.")
	case asleep:
		out = append(out, "The Shoot is to be hibernated.")
	case shoot.Status.IsHibernated:
		out = append(out, "The Shoot is to be woken up.")
	}
	if shoot.DeletionTimestamp != nil {
		out = append(out, fmt.Sprintf("The Shoot has been deleted %s ago.", age(shoot.DeletionTimestamp.Time, now)))
	}
	if m := shoot.Spec.Maintenance; m != nil && ptr.Deref(m.ConfineSpecUpdateRollout, false) {
		out = append(out, fmt.Sprintf("Changes of the spec are rolled out in the maintenance window only (%s).", window(m)))
	}
	return out
}

func window(m *corev1beta1.Maintenance) string {
	if m.TimeWindow == nil {
		return "at any time"
	}
	return "from " + m.TimeWindow.Begin + " to " + m.TimeWindow.End
}

// hindrances are why nothing is done for the Shoot.
func hindrances(f *ShootFacts, now time.Time) (out []Problem) {
	shoot := f.Shoot
	if ptr.Deref(shoot.Spec.SeedName, "") == "" {
		return []Problem{{
			Object:  Object{InGarden, "Shoot", shoot.Namespace, shoot.Name},
			Message: "No Seed has been chosen for the control plane: " + description(shoot),
			Action: "Change the Shoot as the message says, or have an operator make a Seed suitable. " +
				"The scheduler tries again after each change.",
		}}
	}
	if f.Seed != nil {
		out = append(out, seed(f.Seed)...)
	}
	if p := reconciliation(f, now); p != nil {
		out = append(out, *p)
	}
	return out
}

func description(shoot *corev1beta1.Shoot) string {
	if shoot.Status.LastOperation == nil {
		return "the scheduler has not tried yet."
	}
	return sentence(shoot.Status.LastOperation.Description)
}

// seed is why operations on a Seed's Shoots fail or wait.
func seed(s *corev1beta1.Seed) (out []Problem) {
	for _, c := range s.Status.Conditions {
		if _, serious := seedActions[c.Type]; !serious || c.Status == corev1beta1.ConditionTrue {
			continue
		}
		p := Problem{
			Object: Object{Place: InGarden, Kind: "Seed", Name: s.Name}, Since: since(c.LastTransitionTime),
			Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, sentence(c.Message)),
			Action:  fmt.Sprintf("An operator can see why: hortus explain seed/%s", s.Name),
		}
		if c.Type == corev1beta1.SeedGardenletReady {
			p.Message += " Until the gardenlet runs and reaches the garden, nothing is changed, and conditions are unknown."
		}
		out = append(out, p)
	}
	return out
}

// reconciliation is why the gardenlet does not work on the Shoot although there is something to do.
func reconciliation(f *ShootFacts, now time.Time) *Problem {
	shoot, last := f.Shoot, f.Shoot.Status.LastOperation
	request := maintenance.ReconcileRequest{
		Shoot: shoot, Operation: corev1beta1.LastOperationTypeReconcile, Version: shoot.Status.Gardener.Version,
		Options: maintenance.ReconcileOptions{RespectSyncPeriodOverwrite: true},
	}
	if last != nil {
		request.Operation = last.Type
	}
	request.EmergencyStop = f.Seed != nil && f.Seed.EmergencyStop()
	decision := maintenance.DecideReconcile(request, now)
	settled := last != nil && last.State == corev1beta1.LastOperationStateSucceeded &&
		shoot.Generation == shoot.Status.ObservedGeneration
	if decision.Now || settled && !request.EmergencyStop {
		return nil
	}
	p := &Problem{Object: Object{InGarden, "Shoot", shoot.Namespace, shoot.Name}, Message: decision.Reason + "."}
	switch {
	case request.EmergencyStop:
		p.Action = "An operator has to end the emergency stop of the Seed: " + endEmergencyStop(f.Seed)
	case last != nil && last.State == corev1beta1.LastOperationStateFailed:
		p.Action = "Remove the cause, then run: " + annotate(shoot, "gardener.cloud/operation=retry")
	default:
		p.Action = "If this is no longer wanted, run: " + annotate(shoot, corev1beta1.AnnotationShootIgnore+"-")
	}
	return p
}

func annotate(shoot *corev1beta1.Shoot, annotation string) string {
	return fmt.Sprintf("kubectl annotate shoot %s -n %s %s", shoot.Name, shoot.Namespace, annotation)
}

// areasOf are the areas whose problems make a condition False. The first condition of an area shows its causes.
var areasOf = map[corev1beta1.ConditionType][]area{
	corev1beta1.ShootAPIServerAvailable:      {controlPlane},
	corev1beta1.ShootControlPlaneHealthy:     {controlPlane},
	corev1beta1.ShootEveryNodeReady:          {nodes},
	corev1beta1.ShootSystemComponentsHealthy: {systemComponents},
}

func conditions(shoot *corev1beta1.Shoot, causes *causes) (out []Problem) {
	for _, c := range shoot.Status.Conditions {
		if c.Status == corev1beta1.ConditionTrue {
			continue
		}
		p := conditionProblem(c)
		p.Action = advice(c.Codes)
		for _, area := range areasOf[c.Type] {
			p.Causes = append(p.Causes, causes.take(area)...)
		}
		out = append(out, p)
	}
	return out
}

func conditionProblem(c corev1beta1.Condition) Problem {
	return Problem{
		Object: Object{InGarden, "Condition", "", string(c.Type)}, Since: since(c.LastTransitionTime),
		Message: fmt.Sprintf("%s: %s", c.Status, sentence(c.Message)),
	}
}

// constraintActions are what owners do about constraints that have no error codes.
var constraintActions = map[corev1beta1.ConditionType]string{
	corev1beta1.ShootCACertificateValiditiesAcceptable: "Rotate the certificate authorities " +
		"(gardener.cloud/operation=rotate-ca-start, later rotate-ca-complete).",
	corev1beta1.ShootManualInPlaceWorkersUpdated: "Select nodes of the pools that the message names, and they are updated.",
	corev1beta1.ShootCRDsWithProblematicConversionWebhooks: "Migrate the stored objects to one version, and remove the " +
		"others from status.storedVersions.",
}

func constraints(shoot *corev1beta1.Shoot) (out []Problem) {
	for _, c := range shoot.Status.Constraints {
		if c.Status == corev1beta1.ConditionTrue {
			continue
		}
		p := Problem{
			Object: Object{InGarden, "Constraint", "", string(c.Type)}, Since: since(c.LastTransitionTime),
			Message: fmt.Sprintf("%s: %s", c.Status, sentence(c.Message)), Action: advice(c.Codes),
		}
		if p.Action == "" {
			p.Action = constraintActions[c.Type]
		}
		out = append(out, p)
	}
	return out
}

// operation shows the errors of the last operation. While it lasts, causes that no condition has shown are shown here.
func operation(shoot *corev1beta1.Shoot, causes *causes) (out []Problem) {
	last := shoot.Status.LastOperation
	if last == nil || last.State == corev1beta1.LastOperationStateSucceeded {
		return nil
	}
	object := Object{InGarden, "Operation", "", string(last.Type)}
	for _, e := range shoot.Status.LastErrors {
		p := Problem{Object: object, Message: sentence(e.Description), Action: advice(e.Codes)}
		if e.LastUpdateTime != nil {
			p.Since = since(*e.LastUpdateTime)
		}
		out = append(out, p)
	}
	if len(out) == 0 && !causes.empty() {
		out = append(out, Problem{Object: object, Since: since(last.LastUpdateTime), Message: sentence(last.Description)})
	}
	if len(out) > 0 {
		out[0].Causes = append(out[0].Causes, causes.takeAll()...)
	}
	return out
}
