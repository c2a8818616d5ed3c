package shootvalidator

import (
	"context"
	"fmt"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/restorable"
)

// notRestorable returns why etcd cannot be restored to the requested point, "" if it can or none is requested. It reads
// from the API server, because the first restorable point may just have changed.
func (p *plugin) notRestorable(ctx context.Context, shoot, old *corev1beta1.Shoot) (string, error) {
	value := shoot.Annotations[corev1beta1.AnnotationRestoreBackup]
	if value == "" || old == nil || value == old.Annotations[corev1beta1.AnnotationRestoreBackup] {
		return "", nil
	}
	revision, at, err := corev1beta1.ParseRestorePoint(value)
	if err != nil {
		return err.Error(), nil
	}
	return restorable.Problem(ctx, p.Live, shoot, revision, at)
}

// restoreProblem rejects restoring a point that would not result in a working cluster.
func (r *request) restoreProblem() error {
	if r.notRestorable == "" {
		return nil
	}
	return fmt.Errorf("metadata.annotations[%s]: %s", corev1beta1.AnnotationRestoreBackup, r.notRestorable)
}
