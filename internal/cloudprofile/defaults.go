package cloudprofile

import (
	"errors"
	"fmt"
	"time"
)

// DefaultKubernetesVersion completes a partial Kubernetes version ("", "1" or "1.30"): it returns the highest supported
// or unclassified version with that prefix, else the highest deprecated one. Complete versions are returned unchanged,
// offered or not. It fails if nothing matches or the text is not a version.
func (p *Profile) DefaultKubernetesVersion(given string, now time.Time) (string, error) {
	prefix, complete, err := parsePrefix(given)
	if err != nil || complete {
		return given, err
	}
	if v := highest(p.Kubernetes, func(v *Version) bool { return prefix.matches(v.Semver) }, now); v != nil {
		return v.Text, nil
	}
	return "", fmt.Errorf("CloudProfile %q offers no supported or deprecated Kubernetes version that matches %q", p.Name,
		given)
}

// highest returns the highest supported version that passes, else the highest deprecated one, else nil.
func highest(versions []*Version, passes func(*Version) bool, now time.Time) *Version {
	var deprecated *Version
	for i := len(versions) - 1; i >= 0; i-- {
		v := versions[i]
		class := v.ClassAt(now)
		if class != Supported && class != Deprecated || !passes(v) {
			continue
		}
		if class == Supported {
			return v
		}
		if deprecated == nil {
			deprecated = v
		}
	}
	return deprecated
}

// ImageRequest is the input from a worker pool for choosing its machine image.
type ImageRequest struct {
	Name         string // If empty, the first image that has a version for the architecture.
	Version      string // If empty or partial, the highest version that matches.
	Architecture string
	MachineType  string
	InPlace      bool
}

// DefaultMachineImage completes a machine image. Supported or unclassified versions have priority over deprecated ones;
// preview and expired versions are never chosen. Versions with three components, and versions that are offered with
// exactly this text, are returned unchanged.
func (p *Profile) DefaultMachineImage(r ImageRequest, now time.Time) (name, version string, err error) {
	needs := Needs{Architecture: r.Architecture, MachineType: p.MachineTypes[r.MachineType]}
	if needs.Architecture == "" {
		needs.Architecture = p.DefaultArchitecture(r.MachineType)
	}
	image, err := p.imageFor(r.Name, needs)
	if err != nil {
		return "", "", err
	}
	if image.Version(r.Version) != nil {
		return image.Name, r.Version, nil
	}
	prefix, complete, err := parsePrefix(r.Version)
	if err != nil {
		return "", "", err
	}
	if complete {
		return image.Name, r.Version, nil
	}
	versions := make([]*Version, 0, len(image.Versions))
	for _, v := range image.Versions {
		if image.runsOn(v, needs) && (!r.InPlace || v.InPlace) {
			versions = append(versions, &v.Version)
		}
	}
	if v := highest(versions, func(v *Version) bool { return prefix.matches(v.Semver) }, now); v != nil {
		return image.Name, v.Text, nil
	}
	return "", "", noVersion(image.Name, r, needs.Architecture)
}

// noVersion returns the error that no version matches the request.
func noVersion(image string, r ImageRequest, architecture string) error {
	text := fmt.Sprintf("machine image %q has no supported or deprecated version for architecture %q", image, architecture)
	if r.Version != "" {
		text += fmt.Sprintf(" that matches %q", r.Version)
	}
	if r.InPlace {
		text += " that can be updated in place (inPlaceUpdates.supported of the version in the CloudProfile), as the pool's updateStrategy needs"
	}
	return errors.New(text)
}

func (p *Profile) imageFor(name string, needs Needs) (*Image, error) {
	for _, image := range p.Images {
		if name != "" {
			if image.Name == name {
				return image, nil
			}
			continue
		}
		for _, v := range image.Versions {
			if image.runsOn(v, needs) {
				return image, nil
			}
		}
	}
	if name != "" {
		return nil, fmt.Errorf("image %q is not supported", name)
	}
	return nil, fmt.Errorf("CloudProfile %q offers no machine image for architecture %q", p.Name, needs.Architecture)
}

// DefaultArchitecture returns the architecture of a machine type, amd64 if the profile does not know the type.
func (p *Profile) DefaultArchitecture(machineType string) string {
	if mt := p.MachineTypes[machineType]; mt != nil {
		return mt.Architecture
	}
	return defaultArchitecture
}
