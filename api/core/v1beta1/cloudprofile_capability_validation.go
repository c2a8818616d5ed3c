package v1beta1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	capabilityArchitecture = "architecture"
	// capabilityReservedPrefix is kept for capabilities that the system itself will define.
	capabilityReservedPrefix = "gardener-"
)

// capabilities checks the definitions, and that machine types and images use nothing else.
func (v CloudProfileValidation) capabilities(spec *CloudProfileSpec) field.ErrorList {
	definitions, path := spec.MachineCapabilities, specPath.Child("machineCapabilities")
	if len(definitions) > 0 && !v.Features.CloudProfileCapabilities {
		return field.ErrorList{field.Forbidden(path, "capabilities are switched off in this landscape")}
	}
	errs := validateUnique(definitions, path, func(d *CapabilityDefinition) string { return d.Name }, child("name"))
	architecture := false
	for i, definition := range definitions {
		path := path.Index(i)
		architecture = architecture || definition.Name == capabilityArchitecture
		errs = append(errs, requiredName(definition.Name, path.Child("name"))...)
		if strings.HasPrefix(definition.Name, capabilityReservedPrefix) {
			errs = append(errs, field.Forbidden(path.Child("name"), "the prefix "+capabilityReservedPrefix+" is reserved"))
		}
		if len(definition.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "must list at least one value"))
		}
		errs = append(errs, validateUniqueStrings(definition.Values, path.Child("values"))...)
		for j, value := range definition.Values {
			errs = append(errs, validateRequired(value, path.Child("values").Index(j))...)
			if definition.Name == capabilityArchitecture && value != "" {
				errs = append(errs, validateEnum(value, path.Child("values").Index(j), ArchitectureAMD64, ArchitectureARM64)...)
			}
		}
	}
	if len(definitions) > 0 && !architecture {
		errs = append(errs, field.Required(path, "must define the capability "+capabilityArchitecture))
	}
	for i := range spec.MachineTypes {
		errs = append(errs, validateCapabilities(spec.MachineTypes[i].Capabilities, definitions,
			specPath.Child("machineTypes").Index(i).Child("capabilities"))...)
	}
	for i := range spec.MachineImages {
		for j := range spec.MachineImages[i].Versions {
			path := specPath.Child("machineImages").Index(i).Child("versions").Index(j).Child("capabilityFlavors")
			for k, flavor := range spec.MachineImages[i].Versions[j].CapabilityFlavors {
				errs = append(errs, validateCapabilities(flavor, definitions, path.Index(k))...)
			}
		}
	}
	return errs
}

func validateCapabilities(
	capabilities Capabilities, definitions []CapabilityDefinition, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(capabilities) {
		path := path.Key(name)
		at := slices.IndexFunc(definitions, func(d CapabilityDefinition) bool { return d.Name == name })
		if at < 0 {
			errs = append(errs, field.Invalid(path, name, "must be defined in spec.machineCapabilities"))
			continue
		}
		errs = append(errs, validateUniqueStrings(capabilities[name], path)...)
		for i, value := range capabilities[name] {
			errs = append(errs, validateEnum(value, path.Index(i), definitions[at].Values...)...)
		}
	}
	return errs
}
