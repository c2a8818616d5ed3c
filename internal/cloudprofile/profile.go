package cloudprofile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Profile holds the versions of a CloudProfile or NamespacedCloudProfile, prepared for many decisions.
type Profile struct {
	Name         string                  // For messages.
	Kubernetes   []*Version              // Ascending.
	Images       []*Image                // In the order of the CloudProfile.
	MachineTypes map[string]*MachineType // By name.
	Changes      []time.Time             // Ascending, unique; strictly after each, the class of some version differs.

	kubernetes   map[string]*Version
	capabilities []corev1beta1.CapabilityDefinition
}

// Image is a machine image with its versions.
type Image struct {
	Name     string
	Strategy corev1beta1.MachineImageUpdateStrategy
	Versions []*ImageVersion // Ascending.

	capabilities []corev1beta1.CapabilityDefinition
}

// ImageVersion is a version of a machine image with its requirements.
type ImageVersion struct {
	Version
	Architectures []string
	CRI           []corev1beta1.CRI
	// Kubelet is the constraint on kubelet versions; nil accepts all.
	Kubelet          *semver.Constraints
	KubeletText      string
	InPlace          bool
	InPlaceMinimum   *semver.Version // Nil if not set.
	CapabilityFlavor []corev1beta1.Capabilities
}

// MachineType holds the properties of a machine type that matter for the choice of an image.
type MachineType struct {
	Name         string
	Architecture string
	Capabilities corev1beta1.Capabilities
}

const (
	architectureCapability = "architecture"
	defaultArchitecture    = "amd64"
)

// Compile parses and sorts a profile, and sets defaults of empty fields. It fails if a version or constraint cannot be
// parsed, which the API server rejects.
func Compile(name string, spec *corev1beta1.CloudProfileSpec) (*Profile, error) {
	p := &Profile{
		Name:         name,
		MachineTypes: make(map[string]*MachineType, len(spec.MachineTypes)),
		kubernetes:   make(map[string]*Version, len(spec.Kubernetes.Versions)),
		capabilities: spec.MachineCapabilities,
	}
	for i := range spec.Kubernetes.Versions {
		v, err := newVersion(&spec.Kubernetes.Versions[i])
		if err != nil {
			return nil, fmt.Errorf("profile %q: kubernetes: %w", name, err)
		}
		if p.kubernetes[v.Text] == nil {
			p.kubernetes[v.Text] = v
			p.Kubernetes = append(p.Kubernetes, v)
			p.Changes = append(p.Changes, v.Changes()...)
		}
	}
	slices.SortStableFunc(p.Kubernetes, func(a, b *Version) int { return a.Semver.Compare(b.Semver) })
	for i := range spec.MachineImages {
		image, err := compileImage(&spec.MachineImages[i], spec.MachineCapabilities)
		if err != nil {
			return nil, fmt.Errorf("profile %q: machine image %q: %w", name, spec.MachineImages[i].Name, err)
		}
		p.Images = append(p.Images, image)
		for _, v := range image.Versions {
			p.Changes = append(p.Changes, v.Changes()...)
		}
	}
	for i := range spec.MachineTypes {
		mt := &spec.MachineTypes[i]
		p.MachineTypes[mt.Name] = &MachineType{
			Name:         mt.Name,
			Architecture: architectureOf(mt),
			Capabilities: mt.Capabilities,
		}
	}
	slices.SortFunc(p.Changes, time.Time.Compare)
	p.Changes = slices.CompactFunc(p.Changes, time.Time.Equal)
	return p, nil
}

func compileImage(in *corev1beta1.MachineImage, capabilities []corev1beta1.CapabilityDefinition) (*Image, error) {
	image := &Image{Name: in.Name, Strategy: corev1beta1.UpdateStrategyMajor, capabilities: capabilities}
	if in.UpdateStrategy != nil && *in.UpdateStrategy != "" {
		image.Strategy = *in.UpdateStrategy
	}
	switch image.Strategy {
	case corev1beta1.UpdateStrategyPatch, corev1beta1.UpdateStrategyMinor, corev1beta1.UpdateStrategyMajor:
	default:
		return nil, fmt.Errorf("unknown updateStrategy %q", image.Strategy)
	}
	seen := make(map[string]bool, len(in.Versions))
	for i := range in.Versions {
		v, err := compileImageVersion(&in.Versions[i], capabilities)
		if err != nil {
			return nil, err
		}
		if !seen[v.Text] {
			seen[v.Text] = true
			image.Versions = append(image.Versions, v)
		}
	}
	slices.SortStableFunc(image.Versions, func(a, b *ImageVersion) int { return a.Semver.Compare(b.Semver) })
	return image, nil
}

func compileImageVersion(
	in *corev1beta1.MachineImageVersion, capabilities []corev1beta1.CapabilityDefinition,
) (*ImageVersion, error) {
	base, err := newVersion(&in.ExpirableVersion)
	if err != nil {
		return nil, err
	}
	v := &ImageVersion{
		Version:          *base,
		Architectures:    in.Architectures,
		CRI:              in.CRI,
		CapabilityFlavor: in.CapabilityFlavors,
	}
	if len(v.Architectures) == 0 {
		v.Architectures = architecturesOf(in.CapabilityFlavors, capabilities)
	}
	if len(v.Architectures) == 0 {
		v.Architectures = []string{defaultArchitecture}
	}
	if len(v.CRI) == 0 {
		v.CRI = []corev1beta1.CRI{{Name: corev1beta1.CRINameContainerD}}
	}
	if c := in.KubeletVersionConstraint; c != nil && *c != "" {
		if v.Kubelet, err = semver.NewConstraint(*c); err != nil {
			return nil, fmt.Errorf("version %q: parse kubelet constraint %q: %w", in.Version, *c, err)
		}
		v.KubeletText = *c
	}
	if in.InPlaceUpdates != nil {
		v.InPlace = in.InPlaceUpdates.Supported
		if m := in.InPlaceUpdates.MinVersionForUpdate; m != nil && *m != "" {
			if v.InPlaceMinimum, err = ParseVersion(*m); err != nil {
				return nil, fmt.Errorf("version %q: minVersionForUpdate: %w", in.Version, err)
			}
		}
	}
	return v, nil
}

// architecturesOf returns the architectures of flavors. No flavors, or one without an architecture, means all.
func architecturesOf(flavors []corev1beta1.Capabilities, definitions []corev1beta1.CapabilityDefinition) []string {
	defined := corev1beta1.CapabilityDefinition{Name: architectureCapability}
	if i := slices.IndexFunc(definitions,
		func(d corev1beta1.CapabilityDefinition) bool { return d.Name == architectureCapability }); i >= 0 {
		defined = definitions[i]
	}
	if len(flavors) == 0 {
		return defined.Values
	}
	var architectures []string
	for _, flavor := range flavors {
		architectures = append(architectures, valuesOr(flavor, defined)...)
	}
	return architectures
}

func architectureOf(mt *corev1beta1.MachineType) string {
	if mt.Architecture != nil && *mt.Architecture != "" {
		return *mt.Architecture
	}
	if values := mt.Capabilities[architectureCapability]; len(values) == 1 {
		return values[0]
	}
	return defaultArchitecture
}

// KubernetesVersion returns the offered Kubernetes version with the given text, or nil.
func (p *Profile) KubernetesVersion(text string) *Version { return p.kubernetes[text] }

// Image returns the machine image with the given name, or nil. Case does not matter.
func (p *Profile) Image(name string) *Image {
	for _, image := range p.Images {
		if strings.EqualFold(image.Name, name) {
			return image
		}
	}
	return nil
}

// ImageName returns the profile's spelling of the name of a machine image; a name that it does not have is returned
// unchanged.
func ImageName(images []corev1beta1.MachineImage, name string) string {
	for i := range images {
		if strings.EqualFold(images[i].Name, name) {
			return images[i].Name
		}
	}
	return name
}

// Version returns the version with the given text, or nil.
func (i *Image) Version(text string) *ImageVersion {
	for _, v := range i.Versions {
		if v.Text == text {
			return v
		}
	}
	return nil
}
