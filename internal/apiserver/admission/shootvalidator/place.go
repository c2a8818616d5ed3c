package shootvalidator

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// selectorProblem rejects removing the seedSelector of a scheduled Shoot, and changing it so that it no longer selects
// the Shoot's Seed.
func (r *request) selectorProblem() error {
	if r.old == nil || ptr.Deref(r.old.Spec.SeedName, "") == "" ||
		equality.Semantic.DeepEqual(r.shoot.Spec.SeedSelector, r.old.Spec.SeedSelector) {
		return nil
	}
	if r.shoot.Spec.SeedSelector == nil {
		return fmt.Errorf("spec.seedSelector: cannot be removed while the Shoot is on Seed %q", *r.old.Spec.SeedName)
	}
	seed := r.seed
	if r.oldSeed != nil {
		seed = r.oldSeed
	}
	if seed == nil {
		return nil
	}
	if err := selects(r.shoot.Spec.SeedSelector, seed, "Shoot"); err != nil {
		return fmt.Errorf("spec.seedSelector: must select the Seed that the Shoot is on: %w", err)
	}
	return nil
}

// capacityProblem returns an error if the Seed cannot take more Shoots.
func (r *request) capacityProblem() error {
	limit, limited := r.seed.Status.Allocatable[corev1beta1.SeedResourceShoots]
	if !limited || limit.CmpInt64(int64(r.shootsOnSeed)) > 0 {
		return nil
	}
	return fmt.Errorf("spec.seedName: Seed %q has %d Shoots already, and takes at most %s (status.allocatable.shoots)",
		r.seed.Name, r.shootsOnSeed, limit.String())
}

// defaultDomainProblem checks that the destination of a move offers the default domain that the Shoot uses.
func (r *request) defaultDomainProblem() error {
	if r.shoot.Spec.DNS == nil || r.shoot.Spec.DNS.Domain == nil {
		return nil
	}
	for _, domain := range r.oldSeed.Spec.DNS.Defaults {
		if !strings.HasSuffix(*r.shoot.Spec.DNS.Domain, "."+domain.Domain) {
			continue
		}
		if !slices.ContainsFunc(r.seed.Spec.DNS.Defaults,
			func(d corev1beta1.SeedDNSProviderConfig) bool { return d.Domain == domain.Domain }) {
			return fmt.Errorf("spec.seedName: Seed %q does not offer the default domain %q, which the Shoot uses", r.seed.Name,
				domain.Domain)
		}
	}
	return nil
}

var domainPath = specPath.Child("dns", "domain")

// domain checks that a new domain does not overlap with the domain of another Shoot.
func (r *request) domain() field.ErrorList {
	for i := range r.neighbours {
		other := &r.neighbours[i]
		if other.Namespace == r.shoot.Namespace && other.Name == r.shoot.Name {
			continue
		}
		domain, used := *r.shoot.Spec.DNS.Domain, *other.Spec.DNS.Domain
		if used == domain {
			return field.ErrorList{field.Duplicate(domainPath, domain)}
		}
		return field.ErrorList{
			field.Forbidden(domainPath,
				fmt.Sprintf("%s overlaps with the domain of another Shoot; choose one that is neither above nor below it", domain)),
		}
	}
	return nil
}

// newDomain returns the Shoot's domain if it is new, or else "".
func newDomain(shoot, old *corev1beta1.Shoot) string {
	if shoot.Spec.DNS == nil || shoot.DeletionTimestamp != nil {
		return ""
	}
	domain := ptr.Deref(shoot.Spec.DNS.Domain, "")
	if old != nil && old.Spec.DNS != nil && ptr.Deref(old.Spec.DNS.Domain, "") == domain {
		return ""
	}
	return domain
}

// controlPlaneZones checks that the Seed has the zones that a Shoot selects for its control plane.
func (r *request) controlPlaneZones() field.ErrorList {
	if r.shoot.Spec.ControlPlane == nil || len(r.shoot.Spec.ControlPlane.Zones) == 0 {
		return nil
	}
	zones, path := r.shoot.Spec.ControlPlane.Zones, specPath.Child("controlPlane", "zones")
	var before []string
	if r.old != nil && r.old.Spec.ControlPlane != nil {
		before = r.old.Spec.ControlPlane.Zones
	}
	var errs field.ErrorList
	if r.seed == nil || slices.Equal(zones, before) && ptr.Deref(r.old.Spec.SeedName, "") == r.seed.Name {
		return nil
	}
	for i, zone := range zones {
		if !slices.Contains(r.seed.Spec.Provider.Zones, zone) {
			err := field.NotSupported(path.Index(i), zone, r.seed.Spec.Provider.Zones)
			if len(r.seed.Spec.Provider.Zones) == 0 {
				err.Detail = fmt.Sprintf("Seed %q has no zones; leave it out", r.seed.Name)
			}
			errs = append(errs, err)
		}
	}
	return errs
}

// shootsBesides counts Shoots other than this one.
func shootsBesides(shoot *corev1beta1.Shoot, others []corev1beta1.Shoot) int {
	count := 0
	for i := range others {
		if others[i].Namespace != shoot.Namespace || others[i].Name != shoot.Name {
			count++
		}
	}
	return count
}
