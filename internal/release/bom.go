package release

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeBOM writes the software bill of materials: the Go modules of all programs, as the go command has recorded them
// in the programs, in the format CycloneDX. Modules do not differ between platforms but for those of Windows and macOS,
// for which there are no programs.
func writeBOM(o Options, programs map[string]string) (err error) {
	modules := map[string]cyclonedx.Component{}
	for _, program := range Programs {
		info, err := buildinfo.ReadFile(programs[program.Name])
		if err != nil {
			return fmt.Errorf("read modules of %s: %w", program.Name, err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" {
				continue // A part of this repository.
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			modules[purl] = cyclonedx.Component{
				BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl,
			}
		}
		standard := "pkg:golang/std@" + info.GoVersion
		modules[standard] = cyclonedx.Component{
			BOMRef: standard, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: standard,
		}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: o.Source.Time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: o.reference(), Type: cyclonedx.ComponentTypeContainer, Name: repository, Version: o.Version,
		},
	}
	components := make([]cyclonedx.Component, 0, len(modules))
	for _, purl := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[purl])
	}
	bom.Components = &components
	file := filepath.Join(o.Output, "hortus-"+o.Version+".cdx.json")
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
