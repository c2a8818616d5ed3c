package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// Charts that are published.
var Charts = []string{"garden", "gardenlet", "provider-local"}

var (
	imageLine      = regexp.MustCompile(`(?m)^image: .*$`)
	versionLine    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion: .*\n`)
)

// writeCharts packs the charts with the version of the release and its image, by digest, as the default.
func writeCharts(o Options, digest string) error {
	folder, err := os.MkdirTemp("", "hortus-charts-")
	if err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A temporary folder.
	if err := os.CopyFS(folder, charts.FS); err != nil {
		return fmt.Errorf("copy charts: %w", err)
	}
	version := strings.TrimPrefix(o.Version, "v")
	for _, name := range Charts {
		about, values := filepath.Join(folder, name, "Chart.yaml"), filepath.Join(folder, name, "values.yaml")
		if err := errors.Join(
			replace(about, appVersionLine, ""),
			replace(about, versionLine, "version: "+version+"\nappVersion: "+o.Version),
			replace(values, imageLine, "image: "+o.reference()+"@"+digest),
		); err != nil {
			return err
		}
		packed, err := chart.Archive(os.DirFS(folder), name, name)
		if err != nil {
			return err
		}
		file := filepath.Join(o.Output, name+"-"+version+".tgz")
		if err := os.WriteFile(file, packed, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}

// replace replaces what matches in a file.
func replace(file string, what *regexp.Regexp, by string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if err := os.WriteFile(file, what.ReplaceAllLiteral(data, []byte(by)), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
