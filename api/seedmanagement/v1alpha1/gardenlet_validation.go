package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	gardencorev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// gardenletConfiguration is the part of a gardenlet's configuration that is checked here.
//
// +k8s:deepcopy-gen=false
// +k8s:openapi-gen=false
type gardenletConfiguration struct {
	metav1.TypeMeta        `json:",inline"`
	GardenClientConnection *struct {
		GardenClusterAddress string          `json:"gardenClusterAddress,omitempty"`
		GardenClusterCACert  []byte          `json:"gardenClusterCACert,omitempty"`
		Kubeconfig           string          `json:"kubeconfig,omitempty"`
		BootstrapKubeconfig  json.RawMessage `json:"bootstrapKubeconfig,omitempty"`
		KubeconfigSecret     json.RawMessage `json:"kubeconfigSecret,omitempty"`
	} `json:"gardenClientConnection,omitempty"`
	SeedConfig *gardencorev1beta1.SeedTemplate `json:"seedConfig,omitempty"`
}

const (
	gardenletConfigurationKind       = "GardenletConfiguration"
	gardenletConfigurationAPIVersion = "gardenlet.config.gardener.cloud/v1alpha1"
)

var operationsOfGardenlets = []string{
	gardencorev1beta1.OperationReconcile, gardencorev1beta1.OperationForceRedeploy,
}

// ValidateGardenlet checks a Gardenlet.
func ValidateGardenlet(gardenlet *Gardenlet) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&gardenlet.ObjectMeta, true, apivalidation.NameIsDNSLabel, metadataPath)
	errs = append(errs, validateOperation(gardenlet.Annotations, nil, operationsOfGardenlets)...)
	return append(errs, validateGardenletSpec(gardenlet)...)
}

// ValidateGardenletUpdate checks a changed Gardenlet.
func ValidateGardenletUpdate(gardenlet, old *Gardenlet) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&gardenlet.ObjectMeta, &old.ObjectMeta, metadataPath)
	errs = append(errs, validateOperation(gardenlet.Annotations, old.Annotations, operationsOfGardenlets)...)
	errs = append(errs, validateGardenletSpec(gardenlet)...)
	errs = append(errs, immutable(gardenlet.Spec.Deployment.ServiceAccountName, old.Spec.Deployment.ServiceAccountName,
		specPath.Child("deployment", "serviceAccountName"))...)
	config, _ := parseConfig(gardenlet.Spec.Config)
	before, _ := parseConfig(old.Spec.Config)
	if config != nil && before != nil && config.SeedConfig != nil && before.SeedConfig != nil {
		errs = append(errs, gardencorev1beta1.ValidateSeedTemplateUpdate(config.SeedConfig, before.SeedConfig,
			specPath.Child("config", "seedConfig"))...)
	}
	return errs
}

func validateGardenletSpec(gardenlet *Gardenlet) field.ErrorList {
	var errs field.ErrorList
	if ns := gardenlet.Namespace; ns != "" && ns != gardencorev1beta1.GardenNamespace {
		errs = append(errs, field.Invalid(metadataPath.Child("namespace"), ns,
			"must be "+gardencorev1beta1.GardenNamespace))
	}
	spec, path := &gardenlet.Spec, specPath.Child("deployment")
	errs = append(errs, validateDeployment(&spec.Deployment.GardenletDeployment, path)...)
	// A gardenlet that does not run, or is replaced by one that does not, cannot take a correction.
	if n := spec.Deployment.ReplicaCount; n != nil && *n == 0 {
		errs = append(errs, field.Invalid(path.Child("replicaCount"), *n, "must be at least 1"))
	}
	if probes := spec.Deployment.EnableHealthProbes; probes != nil && !*probes {
		errs = append(errs, field.NotSupported(path.Child("enableHealthProbes"), false, []string{"true"}))
	}
	errs = append(errs, gardencorev1.ValidateOCIRepository(&spec.Deployment.Helm.OCIRepository,
		path.Child("helm", "ociRepository"))...)
	refPath := specPath.Child("kubeconfigSecretRef")
	if ref := spec.KubeconfigSecretRef; ref != nil && ref.Name == "" {
		errs = append(errs, field.Required(refPath.Child("name"), "must be given"))
	}
	const forced = gardencorev1beta1.OperationForceRedeploy
	if gardenlet.Annotations[gardencorev1beta1.AnnotationOperation] == forced && spec.KubeconfigSecretRef == nil {
		errs = append(errs, field.Required(refPath, "must say where the operation "+forced+" installs the gardenlet"))
	}
	path = specPath.Child("config")
	config, configErrs := validateConfig(spec.Config, path)
	errs = append(errs, configErrs...)
	if config == nil {
		return errs
	}
	path = path.Child("seedConfig")
	if config.SeedConfig == nil {
		return append(errs, field.Required(path, "must describe the Seed"))
	}
	if name := config.SeedConfig.Name; name != "" && name != gardenlet.Name {
		errs = append(errs, field.Invalid(path.Child("metadata", "name"), name,
			"must be the name of the Gardenlet, or empty"))
	}
	return append(errs, gardencorev1beta1.ValidateSeedTemplate(config.SeedConfig, path)...)
}

// SeedTemplate returns the Seed in the configuration; nil if it has none.
func (g *Gardenlet) SeedTemplate() *gardencorev1beta1.SeedTemplate {
	config, err := parseConfig(g.Spec.Config)
	if err != nil || config == nil {
		return nil
	}
	return config.SeedConfig
}

// GardenCluster returns the address of the garden as the seed reaches it, and the CA bundle of its certificate, PEM,
// from the configuration. Either is empty if the configuration does not say.
func (g *Gardenlet) GardenCluster() (address string, caBundle []byte) {
	config, err := parseConfig(g.Spec.Config)
	if err != nil || config == nil || config.GardenClientConnection == nil {
		return "", nil
	}
	return config.GardenClientConnection.GardenClusterAddress, config.GardenClientConnection.GardenClusterCACert
}

// parseConfig returns nil if there is no configuration.
func parseConfig(raw *runtime.RawExtension) (*gardenletConfiguration, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, nil
	}
	config := &gardenletConfiguration{}
	if err := json.Unmarshal(raw.Raw, config); err != nil {
		return nil, fmt.Errorf("parse GardenletConfiguration: %w", err)
	}
	if config.SeedConfig != nil {
		gardencorev1beta1.SetDefaultsSeedTemplate(config.SeedConfig)
	}
	return config, nil
}

// validateConfig checks what a configuration is, and returns it; nil if it cannot be read.
func validateConfig(raw *runtime.RawExtension, path *field.Path) (*gardenletConfiguration, field.ErrorList) {
	config, err := parseConfig(raw)
	switch {
	case err != nil:
		return nil, field.ErrorList{field.Invalid(path, "", "must be a GardenletConfiguration: "+err.Error())}
	case config == nil:
		return nil, field.ErrorList{field.Required(path, "must be a GardenletConfiguration")}
	}
	var errs field.ErrorList
	if config.Kind != gardenletConfigurationKind || config.APIVersion != gardenletConfigurationAPIVersion {
		errs = append(errs, field.Invalid(path, config.APIVersion+"/"+config.Kind,
			"must be a "+gardenletConfigurationAPIVersion+"/"+gardenletConfigurationKind))
	}
	return config, errs
}

func validateDeployment(deployment *GardenletDeployment, path *field.Path) field.ErrorList {
	if deployment == nil {
		return nil
	}
	var errs field.ErrorList
	for _, count := range []struct {
		name  string
		value *int32
	}{{"replicaCount", deployment.ReplicaCount}, {"revisionHistoryLimit", deployment.RevisionHistoryLimit}} {
		if count.value != nil && *count.value < 0 {
			errs = append(errs, field.Invalid(path.Child(count.name), *count.value, "must not be negative"))
		}
	}
	errs = append(errs, metav1validation.ValidateLabels(deployment.PodLabels, path.Child("podLabels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(deployment.PodAnnotations, path.Child("podAnnotations"))...)
	image := deployment.Image
	if image == nil {
		return errs
	}
	path = path.Child("image")
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if image.PullPolicy != nil && !slices.Contains(policies, *image.PullPolicy) {
		errs = append(errs, field.NotSupported(path.Child("pullPolicy"), *image.PullPolicy, policies))
	}
	if image.Ref == nil {
		return errs
	}
	for _, part := range []struct {
		name  string
		value *string
	}{{"repository", image.Repository}, {"tag", image.Tag}} {
		if part.value != nil {
			errs = append(errs, field.Forbidden(path.Child(part.name), "is part of ref, which is given"))
		}
	}
	return errs
}
