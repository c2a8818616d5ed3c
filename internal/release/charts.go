package release

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing/fstest"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/chart"
)

// Charts that are published.
var Charts = []string{"garden", "gardenlet"}

var (
	imageLine      = regexp.MustCompile(`(?m)^image: .*$`)
	versionLine    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion: .*\n`)
)

// writeCharts packs the charts with the version of the release and its image, by digest, as the default.
func writeCharts(o Options, digest string) error {
	version := strings.TrimPrefix(o.Version, "v")
	for _, name := range Charts {
		files := fstest.MapFS{}
		err := fs.WalkDir(charts.FS, name, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(charts.FS, path)
			if err != nil {
				return err
			}
			text := string(data)
			switch path {
			case name + "/Chart.yaml":
				text = appVersionLine.ReplaceAllString(text, "")
				text = versionLine.ReplaceAllString(text, "version: "+version+"\nappVersion: "+o.Version)
			case name + "/values.yaml":
				text = imageLine.ReplaceAllString(text, "image: "+o.reference()+"@"+digest)
			}
			files[path] = &fstest.MapFile{Data: []byte(text)}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read chart %s: %w", name, err)
		}
		packed, err := chart.Archive(files, name, name)
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
