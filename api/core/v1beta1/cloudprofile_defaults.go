package v1beta1

// SetDefaultsCloudProfile fills the empty fields of a CloudProfile that have a default.
func SetDefaultsCloudProfile(profile *CloudProfile) {
	spec := &profile.Spec
	byCapabilities := len(spec.MachineCapabilities) > 0
	for i := range spec.MachineImages {
		image := &spec.MachineImages[i]
		setDefault(&image.UpdateStrategy, UpdateStrategyMajor)
		for j := range image.Versions {
			version := &image.Versions[j]
			if len(version.CRI) == 0 {
				version.CRI = []CRI{{Name: CRINameContainerD}}
			}
			if len(version.Architectures) == 0 && !byCapabilities {
				version.Architectures = []string{ArchitectureAMD64}
			}
		}
	}
	for i := range spec.MachineTypes {
		setDefault(&spec.MachineTypes[i].Usable, true)
		if !byCapabilities {
			setDefault(&spec.MachineTypes[i].Architecture, ArchitectureAMD64)
		}
	}
	for i := range spec.VolumeTypes {
		setDefault(&spec.VolumeTypes[i].Usable, true)
	}
}

// SetDefaultsNamespacedCloudProfile fills the empty fields of a NamespacedCloudProfile that have a default. Most have
// none, since an empty field means that of the parent.
func SetDefaultsNamespacedCloudProfile(profile *NamespacedCloudProfile) {
	for i := range profile.Spec.MachineTypes {
		setDefault(&profile.Spec.MachineTypes[i].Usable, true)
	}
	for i := range profile.Spec.VolumeTypes {
		setDefault(&profile.Spec.VolumeTypes[i].Usable, true)
	}
}
