package diff

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/manifest"
)

// preview returns a Shoot as it is, nil if it does not exist, and as it would be after "kubectl apply" of the manifest.
// It changes nothing.
func preview(
	ctx context.Context, garden client.Client, fields map[string]any,
) (before, after map[string]any, err error) {
	wanted := &unstructured.Unstructured{Object: fields}
	for _, path := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(wanted.Object, "metadata", path) // Of a manifest that has been read from the server.
	}
	unstructured.RemoveNestedField(wanted.Object, "status")
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(corev1beta1.SchemeGroupVersion.WithKind("Shoot"))
	key := client.ObjectKeyFromObject(wanted)
	if err := garden.Get(ctx, key, live); apierrors.IsNotFound(err) {
		if err := garden.Create(ctx, wanted, client.DryRunAll); err != nil {
			return nil, nil, fmt.Errorf("the API server refuses the Shoot: %w", err)
		}
		return nil, wanted.Object, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read Shoot %s: %w", key, err)
	}
	patch, err := applyPatch(live, wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("compare Shoot %s with its manifest: %w", key, err)
	}
	edited := live.DeepCopy()
	if err := garden.Patch(ctx, edited, patch, client.DryRunAll); err != nil {
		return nil, nil, fmt.Errorf("the API server refuses the edit: %w", err)
	}
	return live.Object, edited.Object, nil
}

// applyPatch is the patch of "kubectl apply". Without a manifest that was applied before, it removes nothing.
func applyPatch(live, wanted *unstructured.Unstructured) (client.Patch, error) {
	modified, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	original := []byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation])
	if len(original) == 0 {
		original = modified
	}
	patch, as, err := manifest.ApplyPatch(original, modified, current, &corev1beta1.Shoot{})
	return client.RawPatch(as, patch), err
}

// shootOf converts a Shoot; nil for none.
func shootOf(object map[string]any) (*corev1beta1.Shoot, error) {
	if object == nil {
		return nil, nil
	}
	out := &corev1beta1.Shoot{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, out); err != nil {
		return nil, fmt.Errorf("decode Shoot: %w", err)
	}
	return out, nil
}
