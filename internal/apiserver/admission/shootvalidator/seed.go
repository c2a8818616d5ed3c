package shootvalidator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// minZonesForZoneTolerance is how many zones a control plane is spread over.
const minZonesForZoneTolerance = 3

// bindingProblem says why the Seed cannot be chosen in this way.
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
	case r.binding && now == before:
		return fmt.Errorf("spec.seedName: is %q already", before)
	case now == before:
		return nil
	case now == "":
		return errors.New("spec.seedName: cannot be removed")
	case !r.binding:
		return errors.New("spec.seedName: can be changed only through the subresource shoots/binding")
	case before != "":
		return r.migrationProblem()
	}
	return nil
}

// migrationProblem says why a control plane cannot move between two Seeds.
func (r *request) migrationProblem() error {
	other := r.shoot.DeepCopy()
	other.Spec.SeedName = r.old.Spec.SeedName
	if !equality.Semantic.DeepEqual(other.Spec, r.old.Spec) {
		return errors.New("spec: nothing but spec.seedName may change when a control plane moves to another Seed")
	}
	if r.seed == nil || r.oldSeed == nil {
		return nil
	}
	if r.seed.Spec.Backup == nil || r.oldSeed.Spec.Backup == nil {
		return errors.New("spec.seedName: a control plane can move only between Seeds that both have spec.backup")
	}
	internal := func(seed *corev1beta1.Seed) string {
		if seed.Spec.DNS.Internal == nil {
			return ""
		}
		return seed.Spec.DNS.Internal.Domain
	}
	if internal(r.seed) != internal(r.oldSeed) {
		return fmt.Errorf("spec.seedName: Seed %q has the internal domain %q, Seed %q has %q; they must be the same", r.oldSeed.Name, internal(r.oldSeed), r.seed.Name, internal(r.seed))
	}
	return r.defaultDomainProblem()
}

// seedProblem says why the Seed does not take the Shoot, or this change of it.
func (r *request) seedProblem() error {
	seed := r.seed
	if seed == nil {
		return nil
	}
	specChanged := r.old == nil || !equality.Semantic.DeepEqual(r.shoot.Spec, r.old.Spec)
	if seed.DeletionTimestamp != nil && r.old != nil && ptr.Deref(r.old.Spec.SeedName, "") == seed.Name {
		if specChanged || otherAnnotationsChanged(r.shoot, r.old) {
			return fmt.Errorf("spec: Seed %q is being deleted; the Shoot can only be deleted or moved", seed.Name)
		}
	}
	if r.old != nil && ptr.Deref(r.old.Spec.SeedName, "") == seed.Name {
		return r.zonesProblem()
	}
	if seed.DeletionTimestamp != nil {
		return fmt.Errorf("spec.seedName: Seed %q is being deleted", seed.Name)
	}
	if err := r.taintsProblem(); err != nil {
		return err
	}
	for _, restriction := range r.shoot.Spec.AccessRestrictions {
		if !slices.ContainsFunc(seed.Spec.AccessRestrictions, func(a corev1beta1.AccessRestriction) bool { return a.Name == restriction.Name }) {
			return fmt.Errorf("spec.accessRestrictions: Seed %q does not support %q", seed.Name, restriction.Name)
		}
	}
	if r.profile != nil && r.profile.Spec.SeedSelector != nil {
		if err := selects(r.profile.Spec.SeedSelector, seed, "cloud profile"); err != nil {
			return fmt.Errorf("spec.seedName: %w", err)
		}
	}
	if err := r.capacityProblem(); err != nil {
		return err
	}
	return r.zonesProblem()
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

// taintsProblem names the taints that keep the Shoot away; the scheduler judges with the same function.
func (r *request) taintsProblem() error {
	var keys []string
	for _, taint := range corev1beta1.UntoleratedTaints(r.seed.Spec.Taints, r.shoot.Spec.Tolerations) {
		keys = append(keys, strconv.Quote(taint.String()))
	}
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("spec.tolerations: the Shoot does not tolerate taint %s of Seed %q", strings.Join(keys, ", "), r.seed.Name)
}

// selects says why a Seed is not among those that a selector chooses.
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
		return fmt.Errorf("provider type %q of Seed %q is not among those of the seedSelector of the %s: %v", seed.Spec.Provider.Type, seed.Name, of, types)
	}
	return nil
}

// operationProblem says why the spec cannot change while the control plane moves.
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

// otherAnnotationsChanged says whether annotations differ, other than the confirmation of a deletion.
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
