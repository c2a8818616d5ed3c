// Package cloudprofileexpiry keeps versions from being offered whose time has passed already. Setting a past date on a
// version that is offered is allowed: it is how an operator expires a version at once.
package cloudprofileexpiry

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/versionclass"
)

// Name of the plugin.
const Name = "CloudProfileExpiry"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate looks at the versions that are new.
func (p *plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	profile, ok := a.GetObject().(*corev1beta1.CloudProfile)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	old, _ := a.GetOldObject().(*corev1beta1.CloudProfile)
	if a.GetOperation() == admission.Create || old == nil {
		if yes, err := strconv.ParseBool(profile.Annotations[corev1beta1.AnnotationAllowExpiredVersions]); err == nil && yes {
			return nil
		}
		old = &corev1beta1.CloudProfile{}
	}
	return hortusadmission.Refuse(a, expired(&profile.Spec, &old.Spec, p.Clock.Now()))
}

func expired(spec, old *corev1beta1.CloudProfileSpec, now time.Time) field.ErrorList {
	var errs field.ErrorList
	check := func(version *corev1beta1.ExpirableVersion, known bool, path *field.Path) {
		if !known && versionclass.ClassAt(version, now) == versionclass.Expired {
			errs = append(errs, field.Invalid(path.Child("expirationDate"), version.ExpirationDate, fmt.Sprintf(
				"version %s would be expired from the start; annotate a new CloudProfile with %s=true to allow it", version.Version, corev1beta1.AnnotationAllowExpiredVersions)))
		}
	}
	known := map[string]bool{}
	for _, version := range old.Kubernetes.Versions {
		known[version.Version] = true
	}
	for i := range spec.Kubernetes.Versions {
		version := &spec.Kubernetes.Versions[i]
		check(version, known[version.Version], field.NewPath("spec", "kubernetes", "versions").Index(i))
	}
	images := map[string]bool{}
	for _, image := range old.MachineImages {
		for _, version := range image.Versions {
			images[image.Name+":"+version.Version] = true
		}
	}
	for i, image := range spec.MachineImages {
		for j := range image.Versions {
			version := &image.Versions[j].ExpirableVersion
			check(version, images[image.Name+":"+version.Version], field.NewPath("spec", "machineImages").Index(i).Child("versions").Index(j))
		}
	}
	return errs
}
