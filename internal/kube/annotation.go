package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RemoveAnnotation removes an annotation of obj if its value on the server is still the given one: a request that was
// made meanwhile stays. An object that is gone is no error.
func RemoveAnnotation(ctx context.Context, c client.Client, obj client.Object, key, value string) error {
	path := "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path},
	})
	if err != nil {
		return fmt.Errorf("encode the removal of annotation %s: %w", key, err)
	}
	answer := obj.DeepCopyObject().(client.Object)
	err = c.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // Invalid: the test failed.
		return fmt.Errorf("remove annotation %s of %s: %w", key, describe(obj, c.Scheme()), err)
	}
	return nil
}
