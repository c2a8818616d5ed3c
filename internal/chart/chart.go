// Package chart renders Helm charts into Kubernetes objects, in the order in which they have to be applied.
//
// It stores no releases in the cluster: the caller applies the objects and owns their fields by server-side apply, so
// that a second run repairs drift or changes nothing.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Release is the value of .Release in templates.
type Release struct {
	Name      string
	Namespace string
	// Capabilities of the cluster that the objects are for. Charts of Hortus have the zero value: they are written for
	// KubernetesVersion.
	Capabilities Capabilities
}

// LoadFS reads the chart in directory dir of fsys.
func LoadFS(fsys fs.FS, dir string) (*helmchart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(fsys, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		files = append(files, &loader.BufferedFile{Name: strings.TrimPrefix(name, path.Clean(dir)+"/"), Data: data})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read chart %q: %w", dir, err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("load chart %q: %w", dir, err)
	}
	return loaded, nil
}

// LoadArchive reads a chart from the gzipped tar archive that ControllerDeployments contain as rawChart.
func LoadArchive(archive []byte) (*helmchart.Chart, error) {
	loaded, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, fmt.Errorf("load chart archive: %w", err)
	}
	return loaded, nil
}

// Render returns the objects of the chart for the given values, Namespaces and CustomResourceDefinitions first. values
// override the chart's values.yaml. The result is the same for the same input, and neither the chart nor values are
// changed. As with Helm, the kubeVersion in Chart.yaml has to include the version of the cluster, and the values decide
// which of its dependencies are rendered.
func Render(c *helmchart.Chart, release Release, values map[string]any) ([]*unstructured.Unstructured, error) {
	if err := checkKubeVersion(c, release.Capabilities.Version()); err != nil {
		return nil, err
	}
	c = clone(c)
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil { // As 'helm install' does.
		return nil, fmt.Errorf("resolve dependencies of chart %q: %w", c.Name(), err)
	}
	options := chartutil.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, options, release.Capabilities.forTemplates())
	if err != nil {
		return nil, fmt.Errorf("merge values of chart %q: %w", c.Name(), err)
	}
	rendered, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render chart %q: %w", c.Name(), err)
	}
	names := make([]string, 0, len(rendered))
	for name := range rendered {
		if !strings.HasSuffix(name, "NOTES.txt") {
			names = append(names, name)
		}
	}
	slices.Sort(names)

	var objects []*unstructured.Unstructured
	for _, crd := range c.CRDObjects() {
		decoded, err := Decode(crd.File.Data)
		if err != nil {
			return nil, fmt.Errorf("decode %q of chart %q: %w", crd.Name, c.Name(), err)
		}
		objects = append(objects, decoded...)
	}
	for _, name := range names {
		decoded, err := Decode([]byte(rendered[name]))
		if err != nil {
			return nil, fmt.Errorf("decode %q of chart %q: %w", name, c.Name(), err)
		}
		objects = append(objects, decoded...)
	}
	SortForInstall(objects)
	return objects, nil
}

// clone copies what the resolution of dependencies changes: the tree of charts, their dependencies in Chart.yaml and
// their values, which are replaced as a whole.
func clone(c *helmchart.Chart) *helmchart.Chart {
	out := *c
	if c.Metadata != nil {
		metadata := *c.Metadata
		metadata.Dependencies = nil
		for _, d := range c.Metadata.Dependencies {
			if d != nil {
				dependency := *d
				metadata.Dependencies = append(metadata.Dependencies, &dependency)
			}
		}
		out.Metadata = &metadata
	}
	var dependencies []*helmchart.Chart
	for _, d := range c.Dependencies() {
		dependencies = append(dependencies, clone(d))
	}
	out.SetDependencies(dependencies...)
	return &out
}

// MergeValues writes values over those in into. Objects in both are merged; everything else is replaced.
func MergeValues(into, values map[string]any) {
	for key, value := range values {
		below, isObject := into[key].(map[string]any)
		if above, too := value.(map[string]any); isObject && too {
			MergeValues(below, above)
			continue
		}
		into[key] = value
	}
}

// checkKubeVersion checks the versions of Kubernetes that the chart is made for, if it names any.
func checkKubeVersion(c *helmchart.Chart, version string) error {
	if c.Metadata == nil || c.Metadata.KubeVersion == "" {
		return nil
	}
	wanted, err := semver.NewConstraint(c.Metadata.KubeVersion)
	if err != nil {
		return fmt.Errorf("kubeVersion of chart %q: invalid value: %q (a range of versions, such as >=1.30.0-0)", c.Name(),
			c.Metadata.KubeVersion)
	}
	of, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("version of Kubernetes: invalid value: %q (a semantic version)", version)
	}
	if !wanted.Check(of) {
		return fmt.Errorf("kubeVersion of chart %q: unsupported value: %q (a range that includes the version of the cluster, %s)",
			c.Name(), c.Metadata.KubeVersion, version)
	}
	return nil
}

// Decode parses a YAML or JSON stream of any number of documents; empty ones are dropped and Lists are unpacked.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var document runtime.RawExtension
		if err := decoder.Decode(&document); err == io.EOF {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if raw := bytes.TrimSpace(document.Raw); len(raw) == 0 || string(raw) == "null" || string(raw) == "{}" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(document.Raw); err != nil { // Keeps integers, unlike decoding into a plain map.
			return nil, err
		}
		if !object.IsList() {
			objects = append(objects, object)
			continue
		}
		err := object.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// SortForInstall sorts objects by kind in Helm's install order, unknown kinds last; it is stable within a kind.
func SortForInstall(objects []*unstructured.Unstructured) {
	rank := make(map[string]int, len(releaseutil.InstallOrder))
	for i, kind := range releaseutil.InstallOrder {
		rank[kind] = i
	}
	of := func(o *unstructured.Unstructured) int {
		if r, known := rank[o.GetKind()]; known {
			return r
		}
		return len(rank)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return of(a) - of(b) })
}

// Archive packs the chart in directory dir of fsys as 'helm package' does, for use in a ControllerDeployment. The same
// files result in the same bytes.
func Archive(fsys fs.FS, dir, name string) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	err := fs.WalkDir(fsys, dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Name: path.Join(name, strings.TrimPrefix(file, path.Clean(dir)+"/")), Mode: 0o644, Size: int64(len(data)),
			Typeflag: tar.TypeReg,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(data)
		return err
	})
	if err = errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		return nil, fmt.Errorf("pack chart %q: %w", dir, err)
	}
	return out.Bytes(), nil
}
