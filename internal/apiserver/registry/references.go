package registry

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// SyncSecretRef keeps the two spellings of a reference equal. If they differ, the one that this request changed
// applies; if both changed, credentialsRef, the newer one.
func SyncSecretRef(
	secretRef **corev1.SecretReference, credentialsRef **corev1.ObjectReference, oldSecretRef *corev1.SecretReference,
	oldCredentialsRef *corev1.ObjectReference,
) {
	if ref := *secretRef; ref != nil && oldSecretRef != nil &&
		!equality.Semantic.DeepEqual(ref, oldSecretRef) && equality.Semantic.DeepEqual(*credentialsRef, oldCredentialsRef) {
		*credentialsRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: ref.Namespace, Name: ref.Name}
	}
	*secretRef = nil
	if ref := *credentialsRef; ref != nil && ref.APIVersion == "v1" && ref.Kind == "Secret" {
		*secretRef = &corev1.SecretReference{Namespace: ref.Namespace, Name: ref.Name}
	}
}

// SeedLabels returns labels that mark an object as relevant to the given Seeds, and to no others.
func SeedLabels(labels map[string]string, seeds ...*string) map[string]string {
	labels = maps.Clone(labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, corev1beta1.LabelPrefixSeedName) })
	for _, seed := range seeds {
		if seed == nil || *seed == "" {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[corev1beta1.LabelPrefixSeedName+*seed] = "true"
	}
	return labels
}

// TakeOperation reports whether the operation was requested, and if so removes the annotation.
func TakeOperation(object Object, operation string) bool {
	annotations := object.GetAnnotations()
	if annotations[corev1beta1.AnnotationOperation] != operation {
		return false
	}
	annotations = maps.Clone(annotations)
	delete(annotations, corev1beta1.AnnotationOperation)
	object.SetAnnotations(annotations)
	return true
}

// Operation returns the table cells for the state and progress of an operation.
func Operation(op *corev1beta1.LastOperation) (state string, progress any) {
	if op == nil {
		return Pending, Pending
	}
	return string(op.State), op.Progress
}
