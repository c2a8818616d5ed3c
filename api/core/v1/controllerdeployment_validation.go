package v1

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resourceName is for names that are part of values, where dots and hyphens separate.
var resourceName = regexp.MustCompile(`^[a-zA-Z0-9]+$`)

// ValidateControllerDeployment checks a ControllerDeployment: a Helm chart, or the custom deployment of v1beta1.
func ValidateControllerDeployment(deployment *ControllerDeployment) field.ErrorList {
	return append(validateControllerDeployment(deployment),
		validateTemplates(deployment, field.NewPath("helm", "values"))...)
}

func validateControllerDeployment(deployment *ControllerDeployment) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&deployment.ObjectMeta, false, apivalidation.NameIsDNSLabel,
		field.NewPath("metadata"))
	_, hasType := deployment.Annotations[AnnotationMigrationType]
	_, hasConfig := deployment.Annotations[AnnotationMigrationProviderConfig]
	custom, path := hasType || hasConfig, field.NewPath("helm")
	switch {
	case deployment.Helm == nil && !custom:
		errs = append(errs, field.Forbidden(path, "helm must be given, or in v1beta1 a custom type with its providerConfig"))
	case deployment.Helm != nil && custom:
		errs = append(errs, field.Forbidden(path, "helm cannot be given together with a custom type and providerConfig"))
	case deployment.Helm != nil:
		errs = append(errs, validateHelm(deployment.Helm, path)...)
	}
	return append(errs, validateResources(deployment.Resources, field.NewPath("resources"))...)
}

// ValidateControllerDeploymentUpdate checks a changed ControllerDeployment.
func ValidateControllerDeploymentUpdate(deployment, old *ControllerDeployment) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&deployment.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateControllerDeployment(deployment)...)
	if equality.Semantic.DeepEqual(deployment.Helm, old.Helm) &&
		equality.Semantic.DeepEqual(deployment.Resources, old.Resources) {
		return errs // Values that were stored before their templates were checked may stay.
	}
	return append(errs, validateTemplates(deployment, field.NewPath("helm", "values"))...)
}

func validateHelm(helm *HelmControllerDeployment, path *field.Path) field.ErrorList {
	if (len(helm.RawChart) > 0) == (helm.OCIRepository != nil) {
		return field.ErrorList{field.Required(path, "exactly one of rawChart and ociRepository must be given")}
	}
	if helm.OCIRepository == nil {
		return nil
	}
	return ValidateOCIRepository(helm.OCIRepository, path.Child("ociRepository"))
}

// ValidateOCIRepository checks where a chart is.
func ValidateOCIRepository(repository *OCIRepository, path *field.Path) field.ErrorList {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	ref, name, tag, digest := text(repository.Ref), text(repository.Repository), text(repository.Tag),
		text(repository.Digest)
	var errs field.ErrorList
	if ref != "" {
		for _, part := range []struct{ name, value string }{{"repository", name}, {"tag", tag}, {"digest", digest}} {
			if part.value != "" {
				errs = append(errs, field.Forbidden(path.Child(part.name), "is part of ref, which is given"))
			}
		}
		return errs
	}
	if name == "" {
		errs = append(errs, field.Required(path.Child("repository"), "repository or ref must be given"))
	}
	if tag == "" && digest == "" {
		errs = append(errs, field.Required(path.Child("tag"), "tag or digest must be given"))
	}
	if digest != "" && !strings.HasPrefix(digest, "sha256:") {
		errs = append(errs, field.Invalid(path.Child("digest"), digest, "must begin with sha256:"))
	}
	for _, ref := range []struct {
		name  string
		given bool
		value string
	}{
		{"pullSecretRef", repository.PullSecretRef != nil, localName(repository.PullSecretRef)},
		{"caBundleSecretRef", repository.CABundleSecretRef != nil, localName(repository.CABundleSecretRef)},
	} {
		if ref.given && ref.value == "" {
			errs = append(errs, field.Required(path.Child(ref.name, "name"), "must be given"))
		}
	}
	return errs
}

func validateResources(resources []NamedResourceReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, resource := range resources {
		path := path.Index(i)
		switch {
		case resource.Name == "":
			errs = append(errs, field.Required(path.Child("name"), "must be given"))
		case !resourceName.MatchString(resource.Name):
			errs = append(errs, field.Invalid(path.Child("name"), resource.Name, "must consist of letters and digits"))
		case seen[resource.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), resource.Name))
		}
		seen[resource.Name] = true
		ref := resource.ResourceRef
		if ref.Kind != "Secret" && ref.Kind != "ConfigMap" {
			errs = append(errs, field.NotSupported(path.Child("resourceRef", "kind"), ref.Kind, []string{"Secret", "ConfigMap"}))
		}
		if ref.APIVersion != "v1" {
			errs = append(errs, field.NotSupported(path.Child("resourceRef", "apiVersion"), ref.APIVersion, []string{"v1"}))
		}
		if ref.Name == "" {
			errs = append(errs, field.Required(path.Child("resourceRef", "name"), "must be given"))
		}
	}
	return errs
}

func localName(ref *corev1.LocalObjectReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
