package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/blockyaml"
)

// Objects is what a plan is made from.
type Objects struct {
	CloudProfiles           []*corev1beta1.CloudProfile
	NamespacedCloudProfiles []*corev1beta1.NamespacedCloudProfile
	Shoots                  []*corev1beta1.Shoot
}

// ReadFiles reads manifests from files and from the .yaml, .yml and .json files of directories, deeply; "-" is in.
// Files may hold several documents, and lists. Objects of other kinds are passed over.
func ReadFiles(paths []string, in io.Reader) (*Objects, error) {
	var documents []document
	for _, path := range paths {
		found, err := readPath(path, in)
		if err != nil {
			return nil, err
		}
		documents = append(documents, found...)
	}
	return decodeAll(documents)
}

func readPath(path string, in io.Reader) ([]document, error) {
	if path == "-" {
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return splitDocuments("standard input", data), nil
	}
	var documents []document
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		extension := strings.ToLower(filepath.Ext(name))
		if entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		documents = append(documents, splitDocuments(name, data)...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	return documents, nil
}

// decodeAll decodes on all processors and keeps the order of the documents.
func decodeAll(documents []document) (*Objects, error) {
	parts := make([]Objects, len(documents))
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			var buffer []byte
			for i := w; i < len(documents); i += workers {
				if err := parts[i].decode(&documents[i], &buffer); err != nil {
					return fmt.Errorf("%s: %w", documents[i].source, err)
				}
				documents[i].data = nil // Thousands of manifests: let go of what is decoded.
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := &Objects{}
	for i := range parts {
		all.CloudProfiles = append(all.CloudProfiles, parts[i].CloudProfiles...)
		all.NamespacedCloudProfiles = append(all.NamespacedCloudProfiles, parts[i].NamespacedCloudProfiles...)
		all.Shoots = append(all.Shoots, parts[i].Shoots...)
	}
	return all, nil
}

// decode takes in what a document holds; buffer is memory to work in.
func (o *Objects) decode(d *document, buffer *[]byte) error {
	if d.json {
		return o.decodeJSON(d.data, d.kind)
	}
	var ok bool
	if *buffer, ok = blockyaml.ToJSON(d.data, *buffer); ok {
		return o.decodeJSON(*buffer, d.kind)
	}
	converted, err := yaml.YAMLToJSON(d.data)
	if err != nil {
		return fmt.Errorf("parse YAML: %w", err)
	}
	return o.decodeJSON(converted, d.kind)
}

// decodeJSON decodes one object, or a list of them. kind is that of objects which do not tell theirs: entries of a list
// may leave it out because the list has it.
func (o *Objects) decodeJSON(data []byte, kind string) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("not a manifest: %w", err)
	}
	if list, ok := listed(head.Kind); ok && (list == "" || head.Items != nil) {
		var items []json.RawMessage
		if err := json.Unmarshal(head.Items, &items); head.Items != nil && err != nil {
			return fmt.Errorf("not a list of manifests: %w", err)
		}
		for _, item := range items {
			if err := o.decodeJSON(item, list); err != nil {
				return err
			}
		}
		return nil
	}
	if head.Kind == "" && kind != "" {
		return o.decodeKind(kind, data)
	}
	if !strings.HasPrefix(head.APIVersion, corev1beta1.GroupName+"/") {
		return nil
	}
	return o.decodeKind(head.Kind, data)
}

// listed returns the kind of the entries of a list, empty if they tell it themselves.
func listed(kind string) (of string, isList bool) { return strings.CutSuffix(kind, "List") }

func (o *Objects) decodeKind(kind string, data []byte) error {
	var into any
	switch kind {
	case "CloudProfile":
		o.CloudProfiles = append(o.CloudProfiles, &corev1beta1.CloudProfile{})
		into = o.CloudProfiles[len(o.CloudProfiles)-1]
	case "NamespacedCloudProfile":
		o.NamespacedCloudProfiles = append(o.NamespacedCloudProfiles, &corev1beta1.NamespacedCloudProfile{})
		into = o.NamespacedCloudProfiles[len(o.NamespacedCloudProfiles)-1]
	case "Shoot":
		o.Shoots = append(o.Shoots, &corev1beta1.Shoot{})
		into = o.Shoots[len(o.Shoots)-1]
	default:
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s %s: %w", kind, nameIn(data), err)
	}
	if shoot, ok := into.(*corev1beta1.Shoot); ok {
		slim(shoot)
	}
	return nil
}

// nameIn returns the name in a manifest that has an error somewhere, quoted.
func nameIn(data []byte) string {
	var head struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return "without a name"
	}
	return strconv.Quote(head.Metadata.Name)
}

// slim drops the large parts of a Shoot that say nothing about its versions: fleets have tens of thousands.
func slim(shoot *corev1beta1.Shoot) {
	shoot.ManagedFields, shoot.Labels = nil, nil
	delete(shoot.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	shoot.Status = corev1beta1.ShootStatus{
		Credentials:     shoot.Status.Credentials,
		LastMaintenance: shoot.Status.LastMaintenance,
		LastOperation:   shoot.Status.LastOperation,
		Constraints:     shoot.Status.Constraints,
	}
	if last := shoot.Status.LastOperation; last != nil {
		last.Description = ""
	}
	shoot.Spec.DNS, shoot.Spec.Networking, shoot.Spec.Extensions, shoot.Spec.Resources = nil, nil, nil, nil
	shoot.Spec.Provider.InfrastructureConfig, shoot.Spec.Provider.ControlPlaneConfig = nil, nil
	for i := range shoot.Spec.Provider.Workers {
		w := &shoot.Spec.Provider.Workers[i]
		w.ProviderConfig, w.Labels, w.Annotations, w.Taints, w.Volume, w.Zones, w.DataVolumes = nil, nil, nil, nil, nil, nil, nil
	}
}

// Overlay returns the objects with the profiles of others put over them: those of the same name are replaced.
func (o *Objects) Overlay(others *Objects) *Objects {
	merged := *o
	merged.CloudProfiles = replace(o.CloudProfiles, others.CloudProfiles, func(a, b *corev1beta1.CloudProfile) bool {
		return a.Name == b.Name
	})
	merged.NamespacedCloudProfiles = replace(o.NamespacedCloudProfiles, others.NamespacedCloudProfiles, func(a, b *corev1beta1.NamespacedCloudProfile) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name
	})
	return &merged
}

func replace[T any](base, changed []T, same func(a, b T) bool) []T {
	merged := slices.Clone(base)
	for _, c := range changed {
		if i := slices.IndexFunc(merged, func(b T) bool { return same(b, c) }); i >= 0 {
			merged[i] = c
		} else {
			merged = append(merged, c)
		}
	}
	return merged
}
