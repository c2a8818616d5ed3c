package managedresource

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// suffixBrotli marks keys whose values are compressed.
const suffixBrotli = ".br"

// maxDecompressed bounds one decompressed value. A Secret holds 1 MiB; manifests shrink to about a tenth, and the bound
// keeps a crafted value from exhausting the memory.
const maxDecompressed = 64 << 20

// object is one wanted object.
type object struct {
	ref  reference
	want *unstructured.Unstructured
}

// decode returns the objects in the Secrets, in the order of Secrets, keys and documents. A document that cannot be
// decoded is reported and left out. Scopes of kinds come from the mapper, or from a definition among the objects.
func decode(secrets []*corev1.Secret, mapper meta.RESTMapper) ([]*object, error) {
	var found []*unstructured.Unstructured
	var errs []error
	for _, s := range secrets {
		for _, key := range slices.Sorted(maps.Keys(s.Data)) {
			objects, err := decodeValue(key, s.Data[key])
			found = append(found, objects...)
			if err != nil {
				errs = append(errs, fmt.Errorf("key %q of Secret %q: %w", key, s.Name, err))
			}
		}
	}
	defined := definedScopes(found)
	out := make([]*object, 0, len(found))
	seen := map[reference]bool{}
	for _, u := range found {
		gvk := u.GroupVersionKind()
		switch scope, err := scopeOf(gvk, mapper, defined); {
		case err != nil:
			return nil, fmt.Errorf("find scope of %s: %w", gvk.Kind, err)
		case scope == meta.RESTScopeNameRoot:
			u.SetNamespace("")
		case scope == meta.RESTScopeNameNamespace && u.GetNamespace() == "":
			u.SetNamespace("default")
		}
		ref := reference{gvk, u.GetNamespace(), u.GetName()}
		if seen[ref] {
			errs = append(errs, fmt.Errorf("%s is given twice", ref))
			continue
		}
		seen[ref] = true
		out = append(out, &object{ref: ref, want: u})
	}
	return out, errors.Join(errs...)
}

func decodeValue(key string, data []byte) ([]*unstructured.Unstructured, error) {
	if strings.HasSuffix(key, suffixBrotli) {
		plain, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(data)), maxDecompressed+1))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if len(plain) > maxDecompressed {
			return nil, fmt.Errorf("more than %d bytes when decompressed", maxDecompressed)
		}
		data = plain
	}
	var out []*unstructured.Unstructured
	var errs []error
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for i := 0; ; i++ {
		doc, err := reader.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i, err))
			break
		}
		objects, err := decodeDocument(doc)
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i, err))
		}
		out = append(out, objects...)
	}
	return out, errors.Join(errs...)
}

// decodeDocument returns the object in a document, the items if it is a list, nothing if it is empty.
func decodeDocument(doc []byte) ([]*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(doc, &u.Object); err != nil {
		return nil, err
	}
	if len(u.Object) == 0 {
		return nil, nil
	}
	if u.IsList() {
		var out []*unstructured.Unstructured
		list, err := u.ToList()
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if err := complete(&list.Items[i]); err != nil {
				return out, err
			}
			out = append(out, &list.Items[i])
		}
		return out, nil
	}
	if err := complete(u); err != nil {
		return nil, err
	}
	return []*unstructured.Unstructured{u}, nil
}

// complete refuses objects that cannot be applied.
func complete(u *unstructured.Unstructured) error {
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return errors.New("apiVersion or kind is missing")
	}
	if u.GetName() == "" {
		return fmt.Errorf("%s without a name", u.GetKind())
	}
	return nil
}

// definedScopes returns the scopes of the kinds defined by CustomResourceDefinitions among the objects.
func definedScopes(objects []*unstructured.Unstructured) map[schema.GroupKind]meta.RESTScopeName {
	out := map[schema.GroupKind]meta.RESTScopeName{}
	for _, u := range objects {
		if u.GetKind() != "CustomResourceDefinition" {
			continue
		}
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		scope := meta.RESTScopeNameNamespace
		if s, _, _ := unstructured.NestedString(u.Object, "spec", "scope"); s == "Cluster" {
			scope = meta.RESTScopeNameRoot
		}
		out[schema.GroupKind{Group: group, Kind: kind}] = scope
	}
	return out
}

// scopeOf returns the scope of a kind, empty if nobody knows it; then the author's namespace stands.
func scopeOf(
	gvk schema.GroupVersionKind, mapper meta.RESTMapper, defined map[schema.GroupKind]meta.RESTScopeName,
) (meta.RESTScopeName, error) {
	if scope, ok := defined[gvk.GroupKind()]; ok {
		return scope, nil
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		return mapping.Scope.Name(), nil
	}
	if meta.IsNoMatchError(err) {
		return "", nil
	}
	return "", err
}

// isIgnored reports whether the author excludes the object from all changes.
func isIgnored(u *unstructured.Unstructured) bool {
	return u.GetAnnotations()[resourcesv1alpha1.AnnotationMode] == resourcesv1alpha1.ModeIgnore
}

// isTrue reads a boolean annotation. Everything but a true value counts as false.
func isTrue(m map[string]string, key string) bool {
	switch cmp.Or(m[key], "false") {
	case "1", "t", "T", "TRUE", "true", "True":
		return true
	}
	return false
}
