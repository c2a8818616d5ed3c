// Package controllerregistrationresources requires each kind and type of extension object to have one primary
// ControllerRegistration.
package controllerregistrationresources

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ControllerRegistrationResources"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate compares a registration with all others.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "controllerregistrations"); !concerns {
		return err
	}
	registration, ok := a.GetObject().(*corev1beta1.ControllerRegistration)
	if !ok {
		return nil
	}
	others := &corev1beta1.ControllerRegistrationList{}
	if err := p.Live.List(ctx, others); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("list ControllerRegistrations: %w", err))
	}
	return hortusadmission.Forbid(a, conflicts(registration, others.Items))
}

func conflicts(
	registration *corev1beta1.ControllerRegistration, others []corev1beta1.ControllerRegistration,
) field.ErrorList {
	type key struct{ kind, name string }
	owners := map[key]string{}
	for _, other := range others {
		if other.Name == registration.Name {
			continue
		}
		for _, resource := range other.Spec.Resources {
			if resource.Primary == nil || *resource.Primary {
				owners[key{resource.Kind, resource.Type}] = other.Name
			}
		}
	}
	var errs field.ErrorList
	for i, resource := range registration.Spec.Resources {
		if resource.Primary != nil && !*resource.Primary {
			continue
		}
		if owner, ok := owners[key{resource.Kind, resource.Type}]; ok {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "resources").Index(i).Child("primary"),
				fmt.Sprintf("%s/%s belongs to ControllerRegistration %q already; set it to false", resource.Kind, resource.Type,
					owner)))
		}
	}
	return errs
}
