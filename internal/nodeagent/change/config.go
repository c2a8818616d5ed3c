package change

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Config is an OperatingSystemConfig as it applies to one node: contents of spec and status in one, files of other
// hosts left out, lists sorted by path and name.
type Config struct {
	Files          []extensionsv1alpha1.File                `json:"files,omitempty"`
	Units          []extensionsv1alpha1.Unit                `json:"units,omitempty"`
	CRI            *extensionsv1alpha1.CRIConfig            `json:"cri,omitempty"`
	InPlaceUpdates *extensionsv1alpha1.InPlaceUpdates       `json:"inPlaceUpdates,omitempty"`
	InPlaceStatus  *extensionsv1alpha1.InPlaceUpdatesStatus `json:"inPlaceStatus,omitempty"`
}

// Parse reads the OperatingSystemConfig in a Secret for the node with the host name.
func Parse(raw []byte, hostName string) (*Config, error) {
	osc := &extensionsv1alpha1.OperatingSystemConfig{}
	if err := yaml.Unmarshal(raw, osc); err != nil {
		return nil, fmt.Errorf("parse OperatingSystemConfig: %w", err)
	}
	c := &Config{
		CRI: osc.Spec.CRIConfig, InPlaceUpdates: osc.Spec.InPlaceUpdates, InPlaceStatus: osc.Status.InPlaceUpdates,
	}
	for _, file := range slices.Concat(osc.Spec.Files, osc.Status.ExtensionFiles) {
		if file.HostName != nil && *file.HostName != hostName {
			continue
		}
		if c.file(file.Path) != nil {
			return nil, fmt.Errorf("parse OperatingSystemConfig: file %s occurs twice for this host", file.Path)
		}
		c.Files = append(c.Files, file)
		slices.SortFunc(c.Files, func(a, b extensionsv1alpha1.File) int { return strings.Compare(a.Path, b.Path) })
	}
	for _, unit := range slices.Concat(osc.Spec.Units, osc.Status.ExtensionUnits) {
		if strings.ContainsAny(unit.Name, "/\x00") || unit.Name == "" {
			return nil, fmt.Errorf("parse OperatingSystemConfig: %q is not the name of a unit", unit.Name)
		}
		if known := c.unit(unit.Name); known != nil {
			mergeUnit(known, unit)
			continue
		}
		c.Units = append(c.Units, *unit.DeepCopy())
		slices.SortFunc(c.Units, func(a, b extensionsv1alpha1.Unit) int { return strings.Compare(a.Name, b.Name) })
	}
	return c, nil
}

// mergeUnit merges an extension's addition into a unit: its fields replace those of the unit, its drop-ins and file
// paths are added.
func mergeUnit(unit *extensionsv1alpha1.Unit, addition extensionsv1alpha1.Unit) {
	if addition.Command != nil {
		unit.Command = addition.Command
	}
	if addition.Enable != nil {
		unit.Enable = addition.Enable
	}
	if addition.Content != nil {
		unit.Content = addition.Content
	}
	for _, dropIn := range addition.DropIns {
		unit.DropIns = slices.DeleteFunc(unit.DropIns,
			func(d extensionsv1alpha1.DropIn) bool { return d.Name == dropIn.Name })
		unit.DropIns = append(unit.DropIns, dropIn)
	}
	unit.FilePaths = append(unit.FilePaths, addition.FilePaths...)
}

// Checksum identifies the content of a Secret. The gardenlet writes it next to the content, and waits for it at Nodes.
func Checksum(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// AnnotationSecretChecksum on the Secret holds the Checksum.
const AnnotationSecretChecksum = "checksum/data-script"

// File returns the file with the path, or nil.
func (c *Config) File(path string) *extensionsv1alpha1.File { return c.file(path) }

// Unit returns the unit with the name, or nil.
func (c *Config) Unit(name string) *extensionsv1alpha1.Unit { return c.unit(name) }

// Registry returns the registry with the upstream, or nil.
func (c *Config) Registry(upstream string) *extensionsv1alpha1.RegistryConfig {
	return c.registry(upstream)
}

func (c *Config) file(path string) *extensionsv1alpha1.File {
	for i := range c.Files {
		if c.Files[i].Path == path {
			return &c.Files[i]
		}
	}
	return nil
}

func (c *Config) unit(name string) *extensionsv1alpha1.Unit {
	for i := range c.Units {
		if c.Units[i].Name == name {
			return &c.Units[i]
		}
	}
	return nil
}

func (c *Config) registries() []extensionsv1alpha1.RegistryConfig {
	if c.CRI == nil || c.CRI.Containerd == nil {
		return nil
	}
	return c.CRI.Containerd.Registries
}

func (c *Config) registry(upstream string) *extensionsv1alpha1.RegistryConfig {
	registries := c.registries()
	for i := range registries {
		if registries[i].Upstream == upstream {
			return &registries[i]
		}
	}
	return nil
}
