package offer

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// internalVersion is how the Go type of a server names itself; it has no wire format.
const internalVersion = "__internal"

// rawConfigs checks that the documents of extensions are of a version with a wire format.
func (c *check) rawConfigs() field.ErrorList {
	var errs field.ErrorList
	check := func(raw *runtime.RawExtension, path *field.Path) {
		if raw == nil || len(raw.Raw) == 0 {
			return
		}
		var meta metav1.TypeMeta
		if json.Unmarshal(raw.Raw, &meta) != nil {
			return // The extension says what is wrong with it.
		}
		if _, version, _ := strings.Cut(meta.APIVersion, "/"); version == internalVersion ||
			meta.APIVersion == internalVersion {
			errs = append(errs, field.Invalid(path.Child("apiVersion"), meta.APIVersion,
				"must be a version that is served, such as v1alpha1"))
		}
	}
	provider, path := &c.shoot.Spec.Provider, specPath.Child("provider")
	check(provider.InfrastructureConfig, path.Child("infrastructureConfig"))
	check(provider.ControlPlaneConfig, path.Child("controlPlaneConfig"))
	for i := range provider.Workers {
		worker, path := &provider.Workers[i], path.Child("workers").Index(i)
		check(worker.ProviderConfig, path.Child("providerConfig"))
		if worker.Machine.Image != nil {
			check(worker.Machine.Image.ProviderConfig, path.Child("machine", "image", "providerConfig"))
		}
		if worker.CRI == nil {
			continue
		}
		for j := range worker.CRI.ContainerRuntimes {
			check(worker.CRI.ContainerRuntimes[j].ProviderConfig,
				path.Child("cri", "containerRuntimes").Index(j).Child("providerConfig"))
		}
	}
	return errs
}
