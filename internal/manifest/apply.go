package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// ApplyPatch returns the patch that "kubectl apply" of a manifest sends, and its type. original is the last applied
// manifest: what it has and modified has not is removed. current is the stored object, and kind an object of its Go
// type, which has the merge keys of lists. If documents of other groups change, which have no merge keys, it is a merge
// patch, in which lists are replaced.
func ApplyPatch(original, modified, current []byte, kind any) ([]byte, types.PatchType, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(kind)
	if err != nil {
		return nil, "", fmt.Errorf("find merge keys: %w", err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, schema, true)
	if err == nil {
		return patch, types.StrategicMergePatchType, nil
	}
	patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return nil, "", fmt.Errorf("compare the manifests: %w", err)
	}
	return patch, types.MergePatchType, nil
}
