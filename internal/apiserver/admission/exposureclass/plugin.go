// Package exposureclass merges the scheduling rules of an ExposureClass into new Shoots that use it.
package exposureclass

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootExposureClass"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit merges the rules of the class.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.Spec.ExposureClassName == nil {
		return nil
	}
	class := &corev1beta1.ExposureClass{}
	if err := p.Get(ctx, "", *shoot.Spec.ExposureClassName, class); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // Rejected by the plugin resourcereference.
		}
		return apierrors.NewInternalError(err)
	}
	if class.Scheduling == nil {
		return nil
	}
	return hortusadmission.Forbid(a, merge(&shoot.Spec, class.Scheduling))
}

var specPath = field.NewPath("spec")

func merge(spec *corev1beta1.ShootSpec, scheduling *corev1beta1.ExposureClassScheduling) field.ErrorList {
	errs := mergeSelector(spec, scheduling.SeedSelector)
	for _, toleration := range scheduling.Tolerations {
		if i := slices.IndexFunc(spec.Tolerations,
			func(t corev1beta1.Toleration) bool { return t.Key == toleration.Key }); i >= 0 {
			errs = append(errs, field.Forbidden(specPath.Child("tolerations").Index(i),
				fmt.Sprintf("key %q is set by the exposure class; leave it out", toleration.Key)))
			continue
		}
		spec.Tolerations = append(spec.Tolerations, toleration)
	}
	return errs
}

func mergeSelector(spec *corev1beta1.ShootSpec, selector *corev1beta1.SeedSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	if spec.SeedSelector == nil {
		spec.SeedSelector = selector.DeepCopy()
		return nil
	}
	var errs field.ErrorList
	merged, path := spec.SeedSelector, specPath.Child("seedSelector")
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		value := selector.MatchLabels[key]
		if own, ok := merged.MatchLabels[key]; ok && own != value {
			errs = append(errs, field.Invalid(path.Child("matchLabels").Key(key), own,
				fmt.Sprintf("the exposure class demands %q", value)))
			continue
		}
		if merged.MatchLabels == nil {
			merged.MatchLabels = map[string]string{}
		}
		merged.MatchLabels[key] = value
	}
	merged.MatchExpressions = append(merged.MatchExpressions, selector.DeepCopy().MatchExpressions...)
	for _, name := range selector.ProviderTypes {
		if !slices.Contains(merged.ProviderTypes, name) {
			merged.ProviderTypes = append(merged.ProviderTypes, name)
		}
	}
	return errs
}
