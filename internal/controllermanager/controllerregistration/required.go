package controllerregistration

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// KindType is a kind and type of extension object, for example Infrastructure and local.
type KindType struct{ Kind, Type string }

// Set of kinds and types.
type Set map[KindType]struct{}

func (s Set) add(kind, t string) {
	if t != "" {
		s[KindType{kind, t}] = struct{}{}
	}
}

// NeededByShoot returns the kinds and types of extension objects in a Shoot's control plane.
func NeededByShoot(s *corev1beta1.Shoot) Set { return setOf(s.UsedExtensions()) }

// NeededBySeed returns the kinds and types that a Seed needs for itself and for the DNS records of all its Shoots.
func NeededBySeed(s *corev1beta1.Seed) Set { return setOf(s.UsedExtensions()) }

func setOf(used []corev1beta1.UsedExtension) Set {
	needed := Set{}
	for _, u := range used {
		needed.add(u.Kind, u.Type)
	}
	return needed
}

// Needed are the kinds and types that a Seed needs extensions for, separately for the Seed and its Shoots: an extension
// may be made for one of them only.
type Needed struct {
	BySeed, ByShoots Set
	Shoots           bool // The seed has Shoots.
}

func (n Needed) includes(resource corev1beta1.ControllerResource) bool {
	kindType := KindType{resource.Kind, resource.Type}
	_, bySeed := n.BySeed[kindType]
	_, byShoots := n.ByShoots[kindType]
	if resource.Kind == extensionsv1alpha1.ExtensionKind {
		bySeed = bySeed && slices.Contains(resource.ClusterCompatibility, corev1beta1.ClusterTypeSeed)
		byShoots = byShoots && slices.Contains(resource.ClusterCompatibility, corev1beta1.ClusterTypeShoot)
	}
	return bySeed || byShoots
}

// Required returns the sorted names of the registrations that have to be installed in a Seed.
func Required(registrations []corev1beta1.ControllerRegistration, seed *corev1beta1.Seed, needed Needed) []string {
	var names []string
	for i := range registrations {
		if required(&registrations[i], seed, needed) {
			names = append(names, registrations[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func required(r *corev1beta1.ControllerRegistration, seed *corev1beta1.Seed, needed Needed) bool {
	if r.DeletionTimestamp != nil || r.Spec.Deployment == nil || len(r.Spec.Deployment.DeploymentRefs) == 0 {
		return false
	}
	if selector := r.Spec.Deployment.SeedSelector; selector != nil {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || !parsed.Matches(labels.Set(seed.Labels)) {
			return false
		}
	}
	policy := corev1beta1.ControllerDeploymentPolicyOnDemand
	if r.Spec.Deployment.Policy != nil {
		policy = *r.Spec.Deployment.Policy
	}
	switch {
	case policy == corev1beta1.ControllerDeploymentPolicyAlways:
		return true
	case policy == corev1beta1.ControllerDeploymentPolicyAlwaysExceptNoShoots && needed.Shoots:
		return true
	}
	return slices.ContainsFunc(r.Spec.Resources, func(resource corev1beta1.ControllerResource) bool {
		return needed.includes(resource) ||
			needed.Shoots && resource.EnabledByDefault(corev1beta1.ClusterTypeShoot) ||
			resource.EnabledByDefault(corev1beta1.ClusterTypeSeed)
	})
}
