package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// credentialsKinds are the kinds that may hold credentials, as apiVersion/kind.
var credentialsKinds = []string{
	"v1/Secret", "core.gardener.cloud/v1beta1/InternalSecret", "security.gardener.cloud/v1alpha1/WorkloadIdentity",
}

// ValidateCredentialsBinding checks a CredentialsBinding.
func ValidateCredentialsBinding(binding *CredentialsBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&binding.ObjectMeta, true, apivalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	ref, path := binding.CredentialsRef, field.NewPath("credentialsRef")
	for _, part := range []struct{ name, value string }{
		{"apiVersion", ref.APIVersion}, {"kind", ref.Kind}, {"name", ref.Name}, {"namespace", ref.Namespace},
	} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), "must be given"))
		}
	}
	if ref.APIVersion != "" && ref.Kind != "" {
		errs = append(errs, supported(ref.APIVersion+"/"+ref.Kind, path)...)
	}
	if ref.Name != "" {
		errs = append(errs, invalid(ref.Name, path.Child("name"), validation.IsDNS1123Subdomain(ref.Name))...)
	}
	if ref.Namespace != "" {
		errs = append(errs, invalid(ref.Namespace, path.Child("namespace"), validation.IsDNS1123Label(ref.Namespace))...)
	}
	path = field.NewPath("provider", "type")
	switch provider := binding.Provider.Type; {
	case provider == "":
		errs = append(errs, field.Required(path, "must be a provider type"))
	case strings.Contains(provider, ","):
		errs = append(errs, field.Invalid(path, provider, "must be a single type; create a binding for each"))
	}
	for i, quota := range binding.Quotas {
		if quota.Name == "" {
			errs = append(errs, field.Required(field.NewPath("quotas").Index(i).Child("name"), "must be given"))
		}
	}
	return errs
}

// ValidateCredentialsBindingUpdate checks a changed CredentialsBinding, of which nothing may change.
func ValidateCredentialsBindingUpdate(binding, old *CredentialsBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&binding.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, immutable(binding.CredentialsRef, old.CredentialsRef, field.NewPath("credentialsRef"))...)
	errs = append(errs, immutable(binding.Provider, old.Provider, field.NewPath("provider"))...)
	errs = append(errs, immutable(binding.Quotas, old.Quotas, field.NewPath("quotas"))...)
	return append(errs, ValidateCredentialsBinding(binding)...)
}

func supported(kind string, path *field.Path) field.ErrorList {
	for _, s := range credentialsKinds {
		if kind == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, kind, credentialsKinds)}
}

func invalid(value string, path *field.Path, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

func immutable(value, old any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "field is immutable")}
}
