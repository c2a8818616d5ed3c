package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var (
	metadataPath  = field.NewPath("metadata")
	specPath      = field.NewPath("spec")
	gardenletPath = specPath.Child("gardenlet")

	operationsOfManagedSeeds = []string{gardencorev1beta1.OperationReconcile, gardencorev1beta1.OperationRenewKubeconfig}
)

// ManagedSeedValidation holds the inputs of the validation of ManagedSeeds other than the objects.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type ManagedSeedValidation struct {
	// BeforeAdmission is true for a ManagedSeed as written by its author: admission has not yet filled the Seed's
	// configuration from the Shoot.
	BeforeAdmission bool
}

// ValidateManagedSeed checks a ManagedSeed after admission.
func ValidateManagedSeed(managedSeed *ManagedSeed) field.ErrorList {
	return ManagedSeedValidation{}.Create(managedSeed)
}

// ValidateManagedSeedUpdate checks a changed ManagedSeed after admission.
func ValidateManagedSeedUpdate(managedSeed, old *ManagedSeed) field.ErrorList {
	return ManagedSeedValidation{}.Update(managedSeed, old)
}

// Create checks a new ManagedSeed.
func (v ManagedSeedValidation) Create(managedSeed *ManagedSeed) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&managedSeed.ObjectMeta, true, apivalidation.NameIsDNSLabel, metadataPath)
	errs = append(errs, validateOperation(managedSeed.Annotations, nil, operationsOfManagedSeeds)...)
	return append(errs, v.spec(&managedSeed.Spec)...)
}

// Update checks a changed ManagedSeed.
func (v ManagedSeedValidation) Update(managedSeed, old *ManagedSeed) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&managedSeed.ObjectMeta, &old.ObjectMeta, metadataPath)
	errs = append(errs, validateOperation(managedSeed.Annotations, old.Annotations, operationsOfManagedSeeds)...)
	errs = append(errs, v.spec(&managedSeed.Spec)...)
	spec, before := &managedSeed.Spec, &old.Spec
	errs = append(errs, immutable(spec.Shoot, before.Shoot, specPath.Child("shoot"))...)
	if before.Gardenlet.Bootstrap != nil {
		errs = append(errs, immutable(spec.Gardenlet.Bootstrap, before.Gardenlet.Bootstrap,
			gardenletPath.Child("bootstrap"))...)
	}
	if before.Gardenlet.MergeWithParent != nil {
		errs = append(errs, immutable(spec.Gardenlet.MergeWithParent, before.Gardenlet.MergeWithParent,
			gardenletPath.Child("mergeWithParent"))...)
	}
	config, _ := parseConfig(spec.Gardenlet.Config)
	configBefore, _ := parseConfig(before.Gardenlet.Config)
	if config != nil && configBefore != nil && config.SeedConfig != nil && configBefore.SeedConfig != nil {
		if v.BeforeAdmission {
			assumeFilled(&config.SeedConfig.Spec, &configBefore.SeedConfig.Spec)
		}
		errs = append(errs, gardencorev1beta1.ValidateSeedTemplateUpdate(config.SeedConfig, configBefore.SeedConfig,
			gardenletPath.Child("config", "seedConfig"))...)
	}
	return errs
}

// assumeFilled makes fields equal that admission would fill from the Shoot in one of the two, where they are empty:
// what is not written cannot contradict what was written before.
func assumeFilled(spec, before *gardencorev1beta1.SeedSpec) {
	same := func(now, old *string) {
		if *now == "" {
			*now = *old
		} else if *old == "" {
			*old = *now
		}
	}
	same(&spec.Networks.Pods, &before.Networks.Pods)
	same(&spec.Networks.Services, &before.Networks.Services)
	if spec.Networks.Nodes == nil {
		spec.Networks.Nodes = before.Networks.Nodes
	}
	if spec.Ingress != nil && before.Ingress != nil {
		same(&spec.Ingress.Domain, &before.Ingress.Domain)
	}
	if spec.Backup != nil && before.Backup != nil {
		same(&spec.Backup.Provider, &before.Backup.Provider)
	}
}

func (v ManagedSeedValidation) spec(spec *ManagedSeedSpec) field.ErrorList {
	var errs field.ErrorList
	switch {
	case spec.Shoot == nil:
		errs = append(errs, field.Required(specPath.Child("shoot"), "must be given"))
	case spec.Shoot.Name == "":
		errs = append(errs, field.Required(specPath.Child("shoot", "name"), "must be given"))
	}
	gardenlet := &spec.Gardenlet
	errs = append(errs, validateDeployment(gardenlet.Deployment, gardenletPath.Child("deployment"))...)
	bootstraps := []Bootstrap{BootstrapServiceAccount, BootstrapToken, BootstrapNone}
	if gardenlet.Bootstrap != nil && !slices.Contains(bootstraps, *gardenlet.Bootstrap) {
		errs = append(errs, field.NotSupported(gardenletPath.Child("bootstrap"), *gardenlet.Bootstrap, bootstraps))
	}
	return append(errs, v.config(gardenlet, gardenletPath.Child("config"))...)
}

func (v ManagedSeedValidation) config(gardenlet *GardenletConfig, path *field.Path) field.ErrorList {
	config, errs := validateConfig(gardenlet.Config, path)
	if config == nil {
		return errs
	}
	errs = append(errs, validateConnection(gardenlet, config, path.Child("gardenClientConnection"))...)
	path = path.Child("seedConfig")
	if config.SeedConfig == nil {
		return append(errs, field.Required(path, "must describe the Seed"))
	}
	for _, e := range gardencorev1beta1.ValidateSeedTemplate(config.SeedConfig, path) {
		if v.BeforeAdmission && filledByAdmission(e) {
			continue
		}
		errs = append(errs, e)
	}
	return errs
}

// filledByAdmission reports whether an error is about a field that admission fills from the Shoot.
func filledByAdmission(e *field.Error) bool {
	empty := e.BadValue == nil || e.BadValue == ""
	return e.Type == field.ErrorTypeRequired || empty &&
		(e.Type == field.ErrorTypeInvalid || e.Type == field.ErrorTypeNotSupported)
}

// validateConnection checks how the gardenlet reaches the garden. Its first credentials are made for it, unless
// bootstrapping is switched off.
func validateConnection(gardenlet *GardenletConfig, config *gardenletConfiguration, path *field.Path) field.ErrorList {
	connection := config.GardenClientConnection
	bootstraps := gardenlet.Bootstrap != nil && *gardenlet.Bootstrap != BootstrapNone
	merges := gardenlet.MergeWithParent != nil && *gardenlet.MergeWithParent
	var errs field.ErrorList
	if connection == nil {
		if !bootstraps && !merges {
			errs = append(errs, field.Required(path,
				"must be given when there is neither a bootstrap nor a parent's configuration"))
		}
		return errs
	}
	if bootstraps {
		if connection.Kubeconfig != "" {
			errs = append(errs, field.Forbidden(path.Child("kubeconfig"), "is made by the bootstrap"))
		}
		return errs
	}
	if connection.Kubeconfig == "" && !merges {
		errs = append(errs, field.Required(path.Child("kubeconfig"), "must be given without a bootstrap"))
	}
	for _, part := range []struct {
		name  string
		given bool
	}{{"bootstrapKubeconfig", len(connection.BootstrapKubeconfig) > 0},
		{"kubeconfigSecret", len(connection.KubeconfigSecret) > 0}} {
		if part.given {
			errs = append(errs, field.Forbidden(path.Child(part.name), "has no meaning without a bootstrap"))
		}
	}
	return errs
}

// validateOperation checks the operation annotation. One that waits to be picked up is not replaced.
func validateOperation(annotations, old map[string]string, operations []string) field.ErrorList {
	key := gardencorev1beta1.AnnotationOperation
	path, requested := metadataPath.Child("annotations").Key(key), annotations[key]
	if requested == "" {
		return nil
	}
	var errs field.ErrorList
	if !slices.Contains(operations, requested) {
		errs = append(errs, field.NotSupported(path, requested, operations))
	}
	if pending := old[key]; pending != "" && pending != requested {
		errs = append(errs, field.Forbidden(path, "the operation "+pending+" has not been picked up yet"))
	}
	return errs
}

func immutable(value, old any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "field is immutable")}
}
