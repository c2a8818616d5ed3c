package seed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/kube"
)

// annotationDefinition is a checksum of what a placeholder was applied with: one that has it needs no request.
const annotationDefinition = "hortus.dev/definition-checksum"

// applyPlaceholders makes the kinds of other projects known which extensions count on, unless somebody has installed
// them.
func (r *Reconciler) applyPlaceholders(ctx context.Context) error {
	existing := &metav1.PartialObjectMetadataList{}
	existing.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := r.Seed.List(ctx, existing); err != nil {
		return fmt.Errorf("list definitions of the seed: %w", err)
	}
	for _, d := range placeholders(r.Placeholders, existing.Items) {
		// A conflict means that somebody else has changed the definition: it belongs to an operator from now on.
		if err := kube.ApplyUnlessOwned(ctx, r.Seed, d, fieldOwner); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// placeholders are those of the wanted definitions that have to be applied: what is missing, and what an earlier
// version has made differently. Definitions without our label belong to others.
func placeholders(
	wanted []*apiextensionsv1.CustomResourceDefinition, existing []metav1.PartialObjectMetadata,
) []*apiextensionsv1.CustomResourceDefinition {
	found := map[string]*metav1.PartialObjectMetadata{}
	for i := range existing {
		found[existing[i].Name] = &existing[i]
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, d := range wanted {
		sum := definitionChecksum(d)
		if old := found[d.Name]; old != nil &&
			(old.Labels[crds.LabelPlaceholder] != "true" || old.Annotations[annotationDefinition] == sum) {
			continue
		}
		d = d.DeepCopy()
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, annotationDefinition, sum)
		out = append(out, d)
	}
	return out
}

func definitionChecksum(d *apiextensionsv1.CustomResourceDefinition) string {
	data, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("encode definition %s: %v", d.Name, err)) // Made of plain values.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
