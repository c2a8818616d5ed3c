package validate

import (
	"encoding/json"
	"fmt"
	"maps"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"hortus.dev/hortus/api/validation"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply returns the object that `kubectl apply` of a manifest would send, given the stored object with its defaults.
// Fields that the manifest no longer has are removed only if the last applied manifest had them. Without a last-applied
// annotation, the old manifest is taken as the last applied one, unless it was read from a server.
func apply(
	manifest, old map[string]any, stored validation.Object, into func() validation.Object,
) (validation.Object, error) {
	original := old
	annotation, applied := stored.GetAnnotations()[lastApplied]
	switch {
	case applied:
		original = map[string]any{}
		if err := json.Unmarshal([]byte(annotation), &original); err != nil {
			return nil, fmt.Errorf("read annotation %s: %w", lastApplied, err)
		}
	case stored.GetUID() != "":
		original = map[string]any{}
	}
	before, err := withoutStatus(original)
	if err != nil {
		return nil, err
	}
	modified, err := withoutStatus(manifest)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	merged, err := merge(before, modified, current, into())
	if err != nil {
		return nil, err
	}
	result := into()
	if err := json.Unmarshal(merged, result); err != nil {
		return nil, fmt.Errorf("read the merged manifest: %w", err)
	}
	return result, nil
}

// merge applies the difference between two manifests to the stored object. In documents of other groups, which have no
// merge keys, lists are replaced.
func merge(before, modified, current []byte, kind any) ([]byte, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(kind)
	if err != nil {
		return nil, fmt.Errorf("find merge keys: %w", err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(before, modified, current, schema, true)
	if err == nil {
		merged, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, patch, schema)
		if err != nil {
			return nil, fmt.Errorf("merge the manifests: %w", err)
		}
		return merged, nil
	}
	patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(before, modified, current)
	if err != nil {
		return nil, fmt.Errorf("compare the manifests: %w", err)
	}
	merged, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, fmt.Errorf("merge the manifests: %w", err)
	}
	return merged, nil
}

// withoutStatus returns a manifest in JSON without its status, because the server keeps the stored one.
func withoutStatus(manifest map[string]any) ([]byte, error) {
	manifest = maps.Clone(manifest)
	delete(manifest, "status")
	return json.Marshal(manifest)
}
