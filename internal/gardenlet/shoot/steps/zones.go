package steps

import (
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// zonesToTolerateZones is how many zones a control plane has that tolerates the failure of one.
const zonesToTolerateZones = 3

// failureTolerance of the control plane; empty if it need not tolerate any failure.
func failureTolerance(shoot *corev1beta1.Shoot) corev1beta1.FailureToleranceType {
	if cp := shoot.Spec.ControlPlane; cp != nil && cp.HighAvailability != nil {
		return cp.HighAvailability.FailureTolerance.Type
	}
	return ""
}

// chooseZones returns the zones of a control plane, in order. Those that it has stay, since it may have volumes there;
// more are added when it has to tolerate more. Control planes are distributed over the zones of the seed by their
// names, so that a choice that is not recorded yet is made again in the same way.
func chooseZones(have, offered []string, tolerance corev1beta1.FailureToleranceType, name string) []string {
	wanted := 1
	if tolerance == corev1beta1.FailureToleranceTypeZone {
		wanted = zonesToTolerateZones
	}
	zones, left := slices.Clone(have), slices.Sorted(slices.Values(offered))
	left = slices.DeleteFunc(left, func(z string) bool { return slices.Contains(have, z) })
	if missing := min(wanted-len(zones), len(left)); missing > 0 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(name))
		first := int(sum.Sum32() % uint32(len(left)))
		zones = append(zones, slices.Concat(left[first:], left[:first])[:missing]...)
	}
	slices.Sort(zones)
	return zones
}

// zonesOf are those that a namespace has recorded.
func zonesOf(namespace *corev1.Namespace) []string {
	return strings.FieldsFunc(namespace.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityZones],
		func(r rune) bool { return r == ',' })
}
