package shootvalidator

import (
	"context"
	"fmt"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/restorable"
)

// notRestorable says why the point that a request wants etcd to be taken back to can't be restored, "" if it can or
// there is no such request. It reads from the server: what is too early may have changed a moment ago.
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

// restoreProblem refuses to restore a point from which no cluster would come that works.
func (r *request) restoreProblem() error {
	if r.notRestorable == "" {
		return nil
	}
	return fmt.Errorf("metadata.annotations[%s]: %s", corev1beta1.AnnotationRestoreBackup, r.notRestorable)
}
