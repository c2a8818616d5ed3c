package v1beta1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metadataPath    = field.NewPath("metadata")
	annotationsPath = metadataPath.Child("annotations")
	specPath        = field.NewPath("spec")
	statusPath      = field.NewPath("status")
)

const immutableText = "field is immutable"

// nameRule returns what is wrong with a name.
type nameRule = apivalidation.ValidateNameFunc

var (
	nameIsLabel     nameRule = apivalidation.NameIsDNSLabel
	nameIsSubdomain nameRule = apivalidation.NameIsDNSSubdomain
	nameIsAnything  nameRule = pathvalidation.ValidatePathSegmentName
)

func validateMeta(meta *metav1.ObjectMeta, namespaced bool, rule nameRule) field.ErrorList {
	return apivalidation.ValidateObjectMeta(meta, namespaced, rule, metadataPath)
}

func validateMetaUpdate(meta, old *metav1.ObjectMeta) field.ErrorList {
	return apivalidation.ValidateObjectMetaUpdate(meta, old, metadataPath)
}

// validateImmutable demands that a value stays what it is.
func validateImmutable(value, old any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, immutableText)}
}

// validateImmutableOnceSet demands that a value stays what it is, once there is one.
func validateImmutableOnceSet[T any](value, old *T, path *field.Path) field.ErrorList {
	if old == nil {
		return nil
	}
	return validateImmutable(value, old, path)
}

func validateRequired(value string, path *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "must be given")}
	}
	return nil
}

func validateEnum[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func validateOptionalEnum[T ~string](value *T, path *field.Path, allowed ...T) field.ErrorList {
	if value == nil {
		return nil
	}
	return validateEnum(*value, path, allowed...)
}

func validateLabel(value string, path *field.Path) field.ErrorList {
	return invalid(value, path, validation.IsDNS1123Label(value))
}

func validateSubdomain(value string, path *field.Path) field.ErrorList {
	return invalid(value, path, validation.IsDNS1123Subdomain(value))
}

func invalid(value any, path *field.Path, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

// validateUnique demands that every key occurs once.
func validateUnique[T any, K comparable](
	list []T, path *field.Path, key func(*T) K, at func(*field.Path) *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[K]()
	var none K // What is missing is no duplicate of what else is missing.
	for i := range list {
		k := key(&list[i])
		if k == none {
			continue
		}
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(at(path.Index(i)), k))
		}
		seen.Insert(k)
	}
	return errs
}

// itself is for keys that have no field of their own.
func itself(path *field.Path) *field.Path { return path }

// child is for keys in a field.
func child(name string) func(*field.Path) *field.Path {
	return func(path *field.Path) *field.Path { return path.Child(name) }
}

func validateUniqueStrings[T ~string](list []T, path *field.Path) field.ErrorList {
	return validateUnique(list, path, func(s *T) T { return *s }, itself)
}

func validateLabelSelector(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
}

func validateSeedSelector(selector *SeedSelector, path *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	return validateLabelSelector(&selector.LabelSelector, path)
}

// validateTolerations checks keys, values and duplicates. A bare key covers all its values.
func validateTolerations(tolerations []Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	bare, exact := sets.New[string](), sets.New[string]()
	for i, toleration := range tolerations {
		path := path.Index(i)
		if toleration.Key == "" {
			errs = append(errs, field.Required(path.Child("key"), "must be given"))
		} else {
			errs = append(errs, invalid(toleration.Key, path.Child("key"), validation.IsQualifiedName(toleration.Key))...)
		}
		id := toleration.Key
		if toleration.Value != nil {
			errs = append(errs, invalid(*toleration.Value, path.Child("value"),
				validation.IsValidLabelValue(*toleration.Value))...)
			id += "=" + *toleration.Value
		}
		if bare.Has(toleration.Key) || exact.Has(id) {
			errs = append(errs, field.Duplicate(path, id))
		}
		if toleration.Value == nil {
			bare.Insert(toleration.Key)
		}
		exact.Insert(id)
	}
	return errs
}

// credentialsKinds are the kinds that may hold credentials, as apiVersion/kind.
var credentialsKinds = []string{"v1/Secret", "security.gardener.cloud/v1alpha1/WorkloadIdentity"}

// validateCredentialsRef checks a reference to credentials. It is complete and of a known kind.
func validateCredentialsRef(ref *corev1.ObjectReference, path *field.Path, namespace bool) field.ErrorList {
	if ref == nil {
		return field.ErrorList{field.Required(path, "must be given")}
	}
	var errs field.ErrorList
	errs = append(errs, validateRequired(ref.APIVersion, path.Child("apiVersion"))...)
	errs = append(errs, validateRequired(ref.Kind, path.Child("kind"))...)
	errs = append(errs, validateRequired(ref.Name, path.Child("name"))...)
	if namespace {
		errs = append(errs, validateRequired(ref.Namespace, path.Child("namespace"))...)
	}
	if ref.APIVersion != "" && ref.Kind != "" {
		errs = append(errs, validateEnum(ref.APIVersion+"/"+ref.Kind, path, credentialsKinds...)...)
	}
	if ref.Name != "" {
		errs = append(errs, validateSubdomain(ref.Name, path.Child("name"))...)
	}
	return errs
}

// validateNamedResources checks names and references. allowed are apiVersion/kind.
func validateNamedResources(resources []NamedResourceReference, path *field.Path, allowed ...string) field.ErrorList {
	errs := validateUnique(resources, path, func(r *NamedResourceReference) string { return r.Name }, child("name"))
	for i, resource := range resources {
		path := path.Index(i)
		errs = append(errs, validateRequired(resource.Name, path.Child("name"))...)
		ref, refPath := resource.ResourceRef, path.Child("resourceRef")
		errs = append(errs, validateRequired(ref.Kind, refPath.Child("kind"))...)
		errs = append(errs, validateRequired(ref.Name, refPath.Child("name"))...)
		errs = append(errs, validateRequired(ref.APIVersion, refPath.Child("apiVersion"))...)
		if len(allowed) > 0 && ref.Kind != "" && ref.APIVersion != "" {
			errs = append(errs, validateEnum(ref.APIVersion+"/"+ref.Kind, refPath, allowed...)...)
		}
	}
	return errs
}

// validateOwner checks that exactly one of a Seed and a self-hosted Shoot uses an object.
func validateOwner(seedName *string, shootRef *corev1.ObjectReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (seedName == nil || *seedName == "") == (shootRef == nil) {
		errs = append(errs, field.Invalid(path.Child("seedName"), seedName,
			"exactly one of seedName and shootRef must be given"))
	}
	if shootRef == nil {
		return errs
	}
	refPath := path.Child("shootRef")
	if shootRef.APIVersion != SchemeGroupVersion.String() {
		errs = append(errs, field.Forbidden(refPath.Child("apiVersion"), "must be "+SchemeGroupVersion.String()))
	}
	if shootRef.Kind != "Shoot" {
		errs = append(errs, field.Forbidden(refPath.Child("kind"), "must be Shoot"))
	}
	if shootRef.Name == "" {
		errs = append(errs, field.Invalid(refPath.Child("name"), shootRef.Name, "must be given"))
	}
	if shootRef.Namespace == "" {
		errs = append(errs, field.Invalid(refPath.Child("namespace"), shootRef.Namespace, "must be given"))
	}
	return errs
}

// validateFrozen forbids changes of the spec of an object that is being deleted.
func validateFrozen(meta, old *metav1.ObjectMeta, spec, oldSpec any) field.ErrorList {
	if meta.DeletionTimestamp == nil || old.DeletionTimestamp == nil || equality.Semantic.DeepEqual(spec, oldSpec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(specPath, "cannot be changed while the object is being deleted")}
}

func noDoubleHyphen(name string, path *field.Path) field.ErrorList {
	if strings.Contains(name, "--") {
		return field.ErrorList{field.Invalid(path, name, "must not contain two hyphens in a row")}
	}
	return nil
}
