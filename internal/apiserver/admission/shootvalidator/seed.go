package shootvalidator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// minZonesForZoneTolerance is the number of zones that a control plane of failure tolerance type zone is spread over.
const minZonesForZoneTolerance = 3

// bindingProblem returns the reason why the request cannot set the Seed.
func (r *request) bindingProblem() error {
	now, before := ptr.Deref(r.shoot.Spec.SeedName, ""), ""
	if r.old == nil {
		if now != "" && !r.mayBind {
			return errors.New("spec.seedName: may be set only by those who may update shoots/binding; leave it out, and the scheduler chooses a Seed")
		}
		return nil
	}
	before = ptr.Deref(r.old.Spec.SeedName, "")
	switch {
	case r.binding && now == before && !r.declaresSourceDead():
		return fmt.Errorf("spec.seedName: is %q already", before)
	case now == before:
		return nil
	case now == "":
		return errors.New("spec.seedName: cannot be removed; to move the control plane, name another Seed")
	case !r.binding:
		return errors.New("spec.seedName: can be changed only through the subresource shoots/binding")
	}
	return nil
}

// declaresSourceDead reports whether the request newly declares that the control plane's Seed is gone.
func (r *request) declaresSourceDead() bool {
	is, set := r.shoot.Annotations[corev1beta1.AnnotationSourceIsDead]
	if r.old == nil {
		return set
	}
	was, wasSet := r.old.Annotations[corev1beta1.AnnotationSourceIsDead]
	return set && (!wasSet || is != was)
}

// sourceIsDeadProblem returns the reason why the declaration that a Seed is gone is not accepted.
func (r *request) sourceIsDeadProblem() error {
	if !r.declaresSourceDead() {
		return nil
	}
	problem := func(format string, args ...any) error {
		return fmt.Errorf("metadata.annotations[%s]: %s", corev1beta1.AnnotationSourceIsDead, fmt.Sprintf(format, args...))
	}
	if r.old == nil || !r.binding {
		return problem("can be set only through the subresource shoots/binding, with the Seed that takes over")
	}
	named, on := r.shoot.Annotations[corev1beta1.AnnotationSourceIsDead], ptr.Deref(r.old.Status.SeedName, "")
	switch {
	case on == "":
		return problem("the control plane is not on any Seed yet; name another one in spec.seedName alone")
	case named != on:
		return problem("must name the Seed that the control plane is on, %q: %q", on, named)
	case named == ptr.Deref(r.shoot.Spec.SeedName, ""):
		return problem("spec.seedName must name another Seed, which takes over from %q", on)
	}
	return nil
}

// callsOff reports whether the request cancels a move by binding the Shoot to the Seed that its control plane is on.
// That Seed is not checked.
func (r *request) callsOff() bool {
	return ptr.Deref(r.old.Status.SeedName, "") == *r.shoot.Spec.SeedName
}

// migrationProblems returns the reasons why a control plane cannot move between two Seeds.
func (r *request) migrationProblems() []error {
	var problems []error
	if err := r.movingProblem(); err != nil {
		problems = append(problems, err)
	}
	if field := changedBesides(r.shoot, r.old); field != "" {
		problems = append(problems,
			fmt.Errorf("%s: nothing but spec.seedName may change when a control plane moves to another Seed", field))
	}
	if r.callsOff() {
		return problems
	}
	for _, seed := range []*corev1beta1.Seed{r.oldSeed, r.seed} {
		if seed != nil && seed.Spec.Backup == nil {
			problems = append(problems,
				fmt.Errorf("spec.seedName: a control plane can move only between Seeds that both have spec.backup; Seed %q has none", seed.Name))
		}
	}
	if r.oldSeed == nil { // Without it there is nothing to compare with.
		return problems
	}
	if was, is := r.oldSeed.Spec.InternalDomain(), r.seed.Spec.InternalDomain(); was != is {
		problems = append(problems,
			fmt.Errorf("spec.seedName: Seed %q has the internal domain %q, Seed %q has %q; they must be the same",
				r.oldSeed.Name, was, r.seed.Name, is))
	}
	if err := r.defaultDomainProblem(); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// movingProblem returns an error if the control plane is in a state in which it cannot move. A move can be cancelled as
// long as the control plane is on the source. If the destination fails to restore it, it can move to another Seed.
func (r *request) movingProblem() error {
	op := r.old.Status.LastOperation
	switch on := ptr.Deref(r.old.Status.SeedName, ""); {
	case r.callsOff(), on == "":
		return nil
	case r.shoot.SourceIsDead(): // Its operations have ended with it.
		return nil
	case r.old.DeletionTimestamp != nil:
		return fmt.Errorf("spec.seedName: Seed %q deletes the Shoot; if that Seed is lost, set the annotation %s "+
			"in the same request", on, corev1beta1.AnnotationSourceIsDead)
	case op != nil && op.Type == corev1beta1.LastOperationTypeCreate &&
		op.State != corev1beta1.LastOperationStateSucceeded:
		return fmt.Errorf("spec.seedName: the control plane is still being created on Seed %q (%s); it can move when it runs there, or, "+
			"if that Seed is lost, with the annotation %s in the same request", on, op.State, corev1beta1.AnnotationSourceIsDead)
	case migrating(op) && !stranded(op):
		return fmt.Errorf("spec.seedName: the control plane is being moved to Seed %q already (%s %s); choose another one when it runs there",
			*r.old.Spec.SeedName, op.Type, op.State)
	}
	if from := ptr.Deref(r.old.Status.SeedName, ""); from != "" && from != *r.old.Spec.SeedName &&
		from != *r.shoot.Spec.SeedName {
		return fmt.Errorf("spec.seedName: the control plane is on Seed %q and is to be moved to %q; cancel the move first by naming Seed %q, or wait until it runs there",
			from, *r.old.Spec.SeedName, from)
	}
	return nil
}

// stranded reports whether the destination failed to restore the control plane.
func stranded(op *corev1beta1.LastOperation) bool {
	return op.Type == corev1beta1.LastOperationTypeRestore &&
		(op.State == corev1beta1.LastOperationStateError || op.State == corev1beta1.LastOperationStateFailed)
}

// changedBesides names the part of a Shoot that differs, other than spec.seedName and the fields that the API server
// maintains; "" if there is none.
func changedBesides(shoot, old *corev1beta1.Shoot) string {
	other := shoot.DeepCopy()
	other.Spec.SeedName = old.Spec.SeedName
	without := func(all map[string]string, own func(string) bool) map[string]string {
		rest := maps.Clone(all)
		maps.DeleteFunc(rest, func(key, _ string) bool { return own(key) })
		return rest
	}
	ownAnnotation := func(key string) bool {
		return key == corev1beta1.AnnotationShootTasks || key == corev1beta1.AnnotationNeedsRetryOperation ||
			key == corev1beta1.AnnotationDeletionConfirmedBy ||
			key == corev1beta1.AnnotationSourceIsDead
	}
	ownLabel := func(key string) bool {
		return strings.HasPrefix(key, corev1beta1.LabelPrefixSeedName) || strings.Contains(key, ".extensions.gardener.cloud/")
	}
	switch equal := equality.Semantic.DeepEqual; {
	case !equal(other.Spec, old.Spec):
		return "spec"
	case !equal(without(shoot.Annotations, ownAnnotation), without(old.Annotations, ownAnnotation)):
		return "metadata.annotations"
	case !equal(without(shoot.Labels, ownLabel), without(old.Labels, ownLabel)):
		return "metadata.labels"
	case !equal(shoot.Finalizers, old.Finalizers):
		return "metadata.finalizers"
	}
	return ""
}

// seedProblem returns all reasons why the Seed does not accept the Shoot, or why it does not accept this change.
func (r *request) seedProblem() error {
	seed := r.seed
	if seed == nil {
		return nil
	}
	if r.old != nil && ptr.Deref(r.old.Spec.SeedName, "") == seed.Name {
		specChanged := !equality.Semantic.DeepEqual(r.shoot.Spec, r.old.Spec)
		if seed.DeletionTimestamp != nil && (specChanged || otherAnnotationsChanged(r.shoot, r.old)) {
			return fmt.Errorf("spec: Seed %q is being deleted; the Shoot can only be deleted or moved", seed.Name)
		}
		return r.zonesProblem()
	}
	var problems []error
	if r.old != nil && ptr.Deref(r.old.Spec.SeedName, "") != "" {
		problems = r.migrationProblems()
		if r.callsOff() {
			return utilerrors.NewAggregate(problems)
		}
	}
	if seed.DeletionTimestamp != nil {
		problems = append(problems, fmt.Errorf("spec.seedName: Seed %q is being deleted", seed.Name))
	}
	for _, restriction := range r.shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(seed.Spec.AccessRestrictions,
			func(a corev1beta1.AccessRestriction) bool { return a.Name == restriction.Name }) {
			problems = append(problems, fmt.Errorf("spec.accessRestrictions: Seed %q does not support %q (%s)", seed.Name,
				restriction.Name, supported(seed.Spec.AccessRestrictions)))
		}
	}
	for _, problem := range []func() error{r.taintsProblem, r.profileSelectorProblem, r.capacityProblem, r.zonesProblem} {
		if err := problem(); err != nil {
			problems = append(problems, err)
		}
	}
	return utilerrors.NewAggregate(problems)
}

// supported lists the access restrictions that a Seed supports.
func supported(restrictions []corev1beta1.AccessRestriction) string {
	if len(restrictions) == 0 {
		return "none is supported"
	}
	var names []string
	for _, restriction := range restrictions {
		names = append(names, strconv.Quote(restriction.Name))
	}
	return "supported: " + strings.Join(names, ", ")
}

// profileSelectorProblem returns the reason why the profile does not select the Seed.
func (r *request) profileSelectorProblem() error {
	if r.profile == nil || r.profile.Spec.SeedSelector == nil {
		return nil
	}
	if err := selects(r.profile.Spec.SeedSelector, r.seed, "cloud profile"); err != nil {
		return fmt.Errorf("spec.seedName: %w", err)
	}
	return nil
}

func (r *request) zonesProblem() error {
	controlPlane := r.shoot.Spec.ControlPlane
	if controlPlane == nil || controlPlane.HighAvailability == nil ||
		controlPlane.HighAvailability.FailureTolerance.Type != corev1beta1.FailureToleranceTypeZone {
		return nil
	}
	if zones := len(r.seed.Spec.Provider.Zones); zones < minZonesForZoneTolerance {
		return fmt.Errorf("spec.controlPlane.highAvailability.failureTolerance.type: zone needs a Seed with %d zones, Seed %q has %d", minZonesForZoneTolerance, r.seed.Name, zones)
	}
	return nil
}

// taintsProblem lists the taints that the Shoot does not tolerate; the scheduler uses the same function.
func (r *request) taintsProblem() error {
	var keys []string
	for _, taint := range corev1beta1.UntoleratedTaints(r.seed.Spec.Taints, r.shoot.Spec.Tolerations) {
		keys = append(keys, strconv.Quote(taint.String()))
	}
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("spec.tolerations: the Shoot does not tolerate taint %s of Seed %q", strings.Join(keys,
		", "), r.seed.Name)
}

// selects returns an error if a selector does not select a Seed.
func selects(selector *corev1beta1.SeedSelector, seed *corev1beta1.Seed, of string) error {
	chosen, err := metav1.LabelSelectorAsSelector(&selector.LabelSelector)
	if err != nil {
		return fmt.Errorf("read seedSelector: %w", err)
	}
	if !chosen.Matches(labels.Set(seed.Labels)) {
		return fmt.Errorf("the labels of Seed %q do not match the seedSelector of the %s: %s", seed.Name, of, chosen)
	}
	types := selector.ProviderTypes
	if len(types) > 0 && !slices.Contains(types, "*") && !slices.Contains(types, seed.Spec.Provider.Type) {
		return fmt.Errorf("provider type %q of Seed %q is not among those of the seedSelector of the %s: %v",
			seed.Spec.Provider.Type, seed.Name, of, types)
	}
	return nil
}

// operationProblem returns an error if the spec cannot change because the control plane is moving.
func (r *request) operationProblem() error {
	if r.old == nil || r.binding || equality.Semantic.DeepEqual(r.shoot.Spec, r.old.Spec) {
		return nil
	}
	last := r.old.Status.LastOperation
	if migrating(last) {
		return errors.New("spec: the control plane is being moved to another Seed; change the spec afterwards")
	}
	if status := ptr.Deref(r.old.Status.SeedName, ""); status != "" && status != ptr.Deref(r.old.Spec.SeedName, "") {
		return errors.New("spec: the Shoot has been rescheduled to a new seed; change the spec when the control plane has moved")
	}
	return nil
}

// otherAnnotationsChanged reports whether annotations differ, other than the confirmation of a deletion.
func otherAnnotationsChanged(shoot, old *corev1beta1.Shoot) bool {
	without := func(annotations map[string]string) map[string]string {
		rest := map[string]string{}
		for key, value := range annotations {
			switch key {
			case corev1beta1.AnnotationConfirmationDeletion, corev1beta1.AnnotationDeletionConfirmedBy:
			default:
				rest[key] = value
			}
		}
		return rest
	}
	return !equality.Semantic.DeepEqual(without(shoot.Annotations), without(old.Annotations))
}
