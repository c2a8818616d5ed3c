package validate

import (
	"encoding/json"
	"fmt"
	"maps"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"hortus.dev/hortus/api/validation"
	"hortus.dev/hortus/internal/manifest"
)

// apply returns the object that `kubectl apply` of a manifest would send, given the stored object with its defaults.
// Fields that the manifest no longer has are removed only if the last applied manifest had them. Without a last-applied
// annotation, the old manifest is taken as the last applied one, unless it was read from a server.
func apply(
	wanted, old map[string]any, stored validation.Object, into func() validation.Object,
) (validation.Object, error) {
	original := old
	annotation, applied := stored.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	switch {
	case applied:
		original = map[string]any{}
		if err := json.Unmarshal([]byte(annotation), &original); err != nil {
			return nil, fmt.Errorf("read annotation %s: %w", corev1.LastAppliedConfigAnnotation, err)
		}
	case stored.GetUID() != "":
		original = map[string]any{}
	}
	before, err := withoutStatus(original)
	if err != nil {
		return nil, err
	}
	modified, err := withoutStatus(wanted)
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

// merge applies the difference between two manifests to the stored object.
func merge(before, modified, current []byte, kind any) ([]byte, error) {
	patch, as, err := manifest.ApplyPatch(before, modified, current, kind)
	if err != nil {
		return nil, err
	}
	var merged []byte
	if as == types.StrategicMergePatchType {
		merged, err = strategicpatch.StrategicMergePatch(current, patch, kind)
	} else {
		merged, err = jsonpatch.MergePatch(current, patch)
	}
	if err != nil {
		return nil, fmt.Errorf("merge the manifests: %w", err)
	}
	return merged, nil
}

// withoutStatus returns a manifest in JSON without its status, because the server keeps the stored one.
func withoutStatus(object map[string]any) ([]byte, error) {
	object = maps.Clone(object)
	delete(object, "status")
	return json.Marshal(object)
}
