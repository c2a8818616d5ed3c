package seedextension

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// wanted returns the Extensions of a seed, sorted by type.
func wanted(
	seed *corev1beta1.Seed, registrations []corev1beta1.ControllerRegistration,
) []*extensionsv1alpha1.Extension {
	if !seed.DeletionTimestamp.IsZero() {
		return nil
	}
	var out []*extensionsv1alpha1.Extension
	for _, registration := range registrations {
		if !registration.DeletionTimestamp.IsZero() {
			continue
		}
		for _, resource := range registration.Spec.Resources {
			if resource.Kind != extensionsv1alpha1.ExtensionKind || !ptr.Deref(resource.Primary, true) ||
				!slices.Contains(resource.ClusterCompatibility, corev1beta1.ClusterTypeSeed) {
				continue
			}
			spec := corev1beta1.Extension{Type: resource.Type}
			enabled := resource.EnabledByDefault(corev1beta1.ClusterTypeSeed)
			for _, e := range seed.Spec.Extensions {
				if e.Type == resource.Type {
					spec, enabled = e, !ptr.Deref(e.Disabled, false)
				}
			}
			if enabled {
				out = append(out, object(spec))
			}
		}
	}
	slices.SortFunc(out, func(a, b *extensionsv1alpha1.Extension) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func object(spec corev1beta1.Extension) *extensionsv1alpha1.Extension {
	e := &extensionsv1alpha1.Extension{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1beta1.GardenNamespace, Name: spec.Type},
	}
	e.Spec.Type, e.Spec.Class = spec.Type, ptr.To(extensionsv1alpha1.ClassSeed)
	e.Spec.ProviderConfig = spec.ProviderConfig.DeepCopy()
	return e
}
