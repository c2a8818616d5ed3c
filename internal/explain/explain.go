package explain

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

// Explanation says why a Shoot is as it is.
type Explanation struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     string    `json:"state"` // What is being done, or was done last.
	Problems  []Problem `json:"problems"`
	Notes     []string  `json:"notes,omitempty"`  // States that somebody has requested, and that explain others.
	Unread    []string  `json:"unread,omitempty"` // What was not read, with the reason: causes may be missing.
}

// Problem is something that is not as it should be.
type Problem struct {
	Object  Object       `json:"object"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
	Action  string       `json:"action,omitempty"` // What a person has to do; empty if nothing, or if the causes say it.
	Causes  []Problem    `json:"causes,omitempty"`
}

// Place is the cluster that an object is in.
type Place string

// The places of objects.
const (
	InGarden Place = "garden"
	InSeed   Place = "seed"
	InShoot  Place = "shoot"
)

// Object names what has a problem. Conditions, constraints and the operation of the Shoot have their type as name.
type Object struct {
	Place     Place  `json:"place"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Of explains the state of a Shoot at a time.
func Of(f *Facts, now time.Time) *Explanation {
	e := &Explanation{
		Namespace: f.Shoot.Namespace, Name: f.Shoot.Name, State: state(f.Shoot, now), Notes: notes(f.Shoot, now),
		Unread: f.Unread, Problems: []Problem{},
	}
	e.Problems = append(e.Problems, hindrances(f, now)...)
	causes := causesOf(f, now)
	e.Problems = append(e.Problems, conditions(f.Shoot, causes)...)
	e.Problems = append(e.Problems, constraints(f.Shoot)...)
	e.Problems = append(e.Problems, operation(f.Shoot, causes)...)
	for _, area := range areas { // What no condition shows yet.
		e.Problems = append(e.Problems, causes.take(area)...)
	}
	return e
}

func state(shoot *corev1beta1.Shoot, now time.Time) string {
	last := shoot.Status.LastOperation
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
func hindrances(f *Facts, now time.Time) (out []Problem) {
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

// seedActions are what operators do about conditions of a Seed.
var seedActions = map[corev1beta1.ConditionType]string{
	corev1beta1.SeedGardenletReady: "An operator has to check that the gardenlet runs and reaches the garden. Until then " +
		"nothing is changed, and conditions are unknown. If the Seed is lost: docs/runbooks/a-seed-is-gone.md.",
	corev1beta1.SeedBackupBucketsReady:      "An operator has to mend the object store or its credentials (Seed, spec.backup).",
	corev1beta1.SeedExtensionsReady:         "An operator has to look at the ControllerInstallations of the Seed.",
	corev1beta1.SeedSystemComponentsHealthy: "An operator has to look at the ManagedResources in namespace garden of the Seed.",
}

func seed(s *corev1beta1.Seed) (out []Problem) {
	for _, c := range s.Status.Conditions {
		action, serious := seedActions[c.Type]
		if !serious || c.Status == corev1beta1.ConditionTrue {
			continue
		}
		out = append(out, Problem{
			Object: Object{Place: InGarden, Kind: "Seed", Name: s.Name}, Since: since(c.LastTransitionTime),
			Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, sentence(c.Message)), Action: action,
		})
	}
	return out
}

// reconciliation is why the gardenlet does not work on the Shoot although there is something to do.
func reconciliation(f *Facts, now time.Time) *Problem {
	shoot, last := f.Shoot, f.Shoot.Status.LastOperation
	request := maintenance.ReconcileRequest{
		Shoot: shoot, Operation: corev1beta1.LastOperationTypeReconcile, Version: shoot.Status.Gardener.Version,
		Options: maintenance.ReconcileOptions{RespectSyncPeriodOverwrite: true},
	}
	if last != nil {
		request.Operation = last.Type
	}
	if f.Seed != nil {
		stop := corev1beta1.FindCondition(f.Seed.Status.Conditions, corev1beta1.SeedEmergencyStopShootReconciliations)
		request.EmergencyStop = stop != nil && stop.Status == corev1beta1.ConditionTrue
	}
	decision := maintenance.DecideReconcile(request, now)
	settled := last != nil && last.State == corev1beta1.LastOperationStateSucceeded &&
		shoot.Generation == shoot.Status.ObservedGeneration
	if decision.Now || settled && !request.EmergencyStop {
		return nil
	}
	p := &Problem{Object: Object{InGarden, "Shoot", shoot.Namespace, shoot.Name}, Message: decision.Reason + "."}
	switch {
	case request.EmergencyStop:
		p.Action = "An operator has to end the emergency stop of the Seed."
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
		p := Problem{
			Object: Object{InGarden, "Condition", "", string(c.Type)}, Since: since(c.LastTransitionTime),
			Message: fmt.Sprintf("%s: %s", c.Status, sentence(c.Message)), Action: advice(c.Codes),
		}
		for _, area := range areasOf[c.Type] {
			p.Causes = append(p.Causes, causes.take(area)...)
		}
		out = append(out, p)
	}
	return out
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
	for _, area := range areas {
		if len(out) > 0 {
			out[0].Causes = append(out[0].Causes, causes.take(area)...)
		}
	}
	return out
}
