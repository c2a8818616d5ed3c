package cloudprofile

import (
	"slices"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Needs are the requirements of a worker pool for a machine image version.
type Needs struct {
	Architecture string
	MachineType  *MachineType // Nil skips the check of capabilities.
	CRI          string       // Empty means containerd.
	Runtimes     []string
	Kubelet      *semver.Version // Nil skips the check of the kubelet constraint.
	// InPlace restricts the result to versions that a pool on version Current can be updated to without new machines.
	InPlace bool
	Current string
}

// Eligible returns the versions of the image, ascending, that meet all needs. The pool cannot use any other version,
// even if it runs on it.
func (i *Image) Eligible(n Needs) []*ImageVersion {
	var current *semver.Version
	if n.InPlace {
		current, _ = ParseVersion(n.Current) // If it cannot be parsed, only Current itself is reachable.
	}
	eligible := make([]*ImageVersion, 0, len(i.Versions))
	for _, v := range i.Versions {
		if i.runsOn(v, n) &&
			v.OffersCRI(n.CRI, n.Runtimes) &&
			v.AcceptsKubelet(n.Kubelet) &&
			(!n.InPlace || v.reachableInPlace(n.Current, current)) {
			eligible = append(eligible, v)
		}
	}
	return eligible
}

// runsOn reports whether machines of the architecture and type can run the version.
func (i *Image) runsOn(v *ImageVersion, n Needs) bool {
	return slices.Contains(v.Architectures, n.Architecture) && v.capable(i.capabilities, n.MachineType)
}

// RunsOn reports whether machines of the type can run the version.
func (i *Image) RunsOn(v *ImageVersion, machineType *MachineType) bool {
	return i.runsOn(v, Needs{Architecture: machineType.Architecture, MachineType: machineType})
}

// AcceptsKubelet reports whether the kubelet version meets the constraint of the image version. Nil meets it.
func (v *ImageVersion) AcceptsKubelet(kubelet *semver.Version) bool {
	return v.Kubelet == nil || kubelet == nil || v.Kubelet.Check(Core(kubelet))
}

// OffersCRI reports whether the version has the container runtime interface name (empty for containerd) with all the
// additional runtimes.
func (v *ImageVersion) OffersCRI(name string, runtimes []string) bool {
	if name == "" {
		name = string(corev1beta1.CRINameContainerD)
	}
	for _, cri := range v.CRI {
		if string(cri.Name) == name {
			return !slices.ContainsFunc(runtimes, func(runtime string) bool {
				return !slices.ContainsFunc(cri.ContainerRuntimes, func(r corev1beta1.ContainerRuntime) bool {
					return r.Type == runtime
				})
			})
		}
	}
	return false
}

func (v *ImageVersion) reachableInPlace(currentText string, current *semver.Version) bool {
	if !v.InPlace {
		return false
	}
	return v.Text == currentText ||
		current != nil && v.InPlaceMinimum != nil && !v.InPlaceMinimum.GreaterThan(current)
}

// capable reports whether one flavor of the image version shares a value with the machine type in every capability. A
// flavor or machine type that does not list a capability has all its values.
func (v *ImageVersion) capable(definitions []corev1beta1.CapabilityDefinition, machine *MachineType) bool {
	if len(definitions) == 0 || machine == nil {
		return true
	}
	flavors := v.CapabilityFlavor
	if len(flavors) == 0 {
		flavors = []corev1beta1.Capabilities{nil}
	}
	return slices.ContainsFunc(flavors, func(flavor corev1beta1.Capabilities) bool {
		return !slices.ContainsFunc(definitions, func(d corev1beta1.CapabilityDefinition) bool {
			return !overlap(valuesOr(flavor, d), valuesOr(machine.Capabilities, d))
		})
	})
}

func valuesOr(c corev1beta1.Capabilities, d corev1beta1.CapabilityDefinition) []string {
	if values, ok := c[d.Name]; ok {
		return values
	}
	return d.Values
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(value string) bool { return slices.Contains(b, value) })
}
