package validate

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"hortus.dev/hortus/api/validation"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// apply returns the object that `kubectl apply` of a manifest would send, given the stored object, whose defaults are
// set. What the manifest no longer has is removed only if it was there when the manifest was applied last. The old
// manifest itself counts as that, unless it was read from a server.
func apply(manifest, old map[string]any, stored validation.Object, into func() validation.Object) (validation.Object, error) {
	original, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	annotation, applied := stored.GetAnnotations()[lastApplied]
	switch {
	case applied:
		original = []byte(annotation)
	case stored.GetUID() != "":
		original = []byte("{}")
	}
	manifest = maps.Clone(manifest)
	delete(manifest, "status") // The server keeps the stored one.
	modified, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(into())
	if err != nil {
		return nil, fmt.Errorf("find merge keys: %w", err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, schema, true)
	if err != nil {
		return nil, fmt.Errorf("compare the manifests: %w", err)
	}
	merged, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(current, patch, schema)
	if err != nil {
		return nil, fmt.Errorf("merge the manifests: %w", err)
	}
	result := into()
	if err := json.Unmarshal(merged, result); err != nil {
		return nil, fmt.Errorf("read the merged manifest: %w", err)
	}
	return result, nil
}
