// Package crds holds the CustomResourceDefinitions a seed needs, and the admission policies that protect the objects.
//
// The gardenlet applies [Seed] when it starts. Extension and resource definitions are generated from the types in
// api/ by "make generate"; those of machines and routes are the files published by the projects that own them.
package crds

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

//go:embed extensions/*.yaml resources/*.yaml machine/*.yaml gateway/*.yaml
var definitions embed.FS

//go:embed policies/*.yaml
var policies embed.FS

// Sets of definitions, by the directory that holds them.
const (
	Extensions = "extensions" // The contract with extensions, group extensions.gardener.cloud.
	Resources  = "resources"  // ManagedResource, group resources.gardener.cloud.
	Machine    = "machine"    // Machines and their sets, group machine.sapcloud.io.
	Gateway    = "gateway"    // TLSRoute, group gateway.networking.k8s.io.
)

// labelDeletionProtected makes the deletion of a definition need a confirmation, see [Policies]: with a definition all
// its objects would vanish, and with them the only trace of what they stand for outside.
const labelDeletionProtected = "gardener.cloud/deletion-protected"

// Get returns the definitions of the given sets, sorted by file name within each set. The objects are copies.
// An unknown set is a programming error and panics.
func Get(sets ...string) []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, set := range sets {
		each(definitions, set, func(data []byte) error {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(data, crd); err != nil {
				return err
			}
			if set == Extensions {
				crd.Labels = map[string]string{labelDeletionProtected: "true"}
			}
			out = append(out, crd)
			return nil
		})
	}
	return out
}

// Seed returns every definition a seed needs.
func Seed() []*apiextensionsv1.CustomResourceDefinition {
	return Get(Extensions, Resources, Machine, Gateway)
}

// Policies returns the ValidatingAdmissionPolicies and their bindings for a seed: objects of the extension contract
// are deleted only after a confirmation, and their spec does not change once they are being deleted.
func Policies() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	protected := []byte(strings.Join(protectedResources(), ", "))
	each(policies, "policies", func(data []byte) error {
		data = bytes.ReplaceAll(data, []byte("$protectedResources"), protected)
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &obj.Object); err != nil {
			return err
		}
		out = append(out, obj)
		return nil
	})
	return out
}

// protectedResources are those of all kinds of the contract but Cluster, which is a copy: nothing outside belongs to
// it.
func protectedResources() []string {
	var plurals []string
	for _, crd := range Get(Extensions) {
		if crd.Spec.Names.Kind != extensionsv1alpha1.ClusterKind {
			plurals = append(plurals, crd.Spec.Names.Plural)
		}
	}
	return plurals
}

// each calls fn for the content of every file in dir. The files are part of the program, so any error is a bug.
func each(files embed.FS, dir string, fn func([]byte) error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		panic(fmt.Sprintf("read embedded directory %q: %v", dir, err))
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		data, err := files.ReadFile(name)
		if err == nil {
			err = fn(data)
		}
		if err != nil {
			panic(fmt.Sprintf("read embedded file %q: %v", name, err))
		}
	}
}
