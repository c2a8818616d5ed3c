package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
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

// document is one manifest and where it is from.
type document struct {
	source string
	data   []byte
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

// splitDocuments cuts a stream at lines that begin with "---".
func splitDocuments(source string, data []byte) []document {
	var documents []document
	add := func(data []byte) {
		if data = bytes.TrimSpace(data); len(data) > 0 {
			documents = append(documents, document{source, data})
		}
	}
	start := 0
	for at := 0; at < len(data); {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data)
		} else {
			end += at + 1
		}
		if line := data[at:end]; bytes.HasPrefix(line, []byte("---")) {
			add(data[start:at])
			start = at + len("---")
			if rest := bytes.TrimSpace(line[len("---"):]); len(rest) > 0 && rest[0] == '#' {
				start = end
			}
		}
		at = end
	}
	add(data[start:])
	return documents
}

// decodeAll decodes on all processors and keeps the order of the documents.
func decodeAll(documents []document) (*Objects, error) {
	parts := make([]Objects, len(documents))
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(documents); i += workers {
				if err := parts[i].decode(documents[i].data); err != nil {
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

func (o *Objects) decode(data []byte) error {
	if data[0] == '{' {
		if values, err := jsonValues(data); err == nil {
			for _, value := range values {
				if err := o.decodeJSON(value); err != nil {
					return err
				}
			}
			return nil
		}
	}
	converted, err := yaml.YAMLToJSON(data)
	if err != nil {
		return fmt.Errorf("parse YAML: %w", err)
	}
	return o.decodeJSON(converted)
}

// jsonValues splits a file that may hold one value after the other. It fails on flow style YAML, which looks alike.
func jsonValues(data []byte) ([]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var values []json.RawMessage
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return values, nil
		} else if err != nil {
			return nil, err
		}
		values = append(values, raw)
	}
}

func (o *Objects) decodeJSON(data []byte) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("not a manifest: %w", err)
	}
	if head.Kind == "List" || strings.HasSuffix(head.Kind, "List") && head.Items != nil {
		for _, item := range head.Items {
			if err := o.decodeItem(item, strings.TrimSuffix(head.Kind, "List")); err != nil {
				return err
			}
		}
		return nil
	}
	if !strings.HasPrefix(head.APIVersion, corev1beta1.GroupName+"/") {
		return nil
	}
	return o.decodeKind(head.Kind, head.Metadata.Name, data)
}

// decodeItem decodes an entry of a list, whose kind may be left out because the list has it.
func (o *Objects) decodeItem(data []byte, kind string) error {
	var head metav1.TypeMeta
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("not a manifest: %w", err)
	}
	if head.Kind != "" {
		return o.decodeJSON(data)
	}
	return o.decodeKind(kind, "", data)
}

func (o *Objects) decodeKind(kind, name string, data []byte) error {
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
		return fmt.Errorf("decode %s %q: %w", kind, name, err)
	}
	return nil
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
