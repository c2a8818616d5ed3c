package shoot

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/restorable"
)

// startRestore records in the seed that a backup is to be restored, and takes the request out of the annotations;
// writeStart writes that. After a stop in between the record is there, and the same request continues it. A request
// that can't be met is answered by an event.
func (r *Reconciler) startRestore(
	ctx context.Context, shoot *corev1beta1.Shoot, namespace string, now time.Time,
) error {
	value, requested := shoot.Annotations[corev1beta1.AnnotationRestoreBackup]
	if !requested {
		return nil
	}
	before, err := steps.ReadRestoration(ctx, r.Seed, namespace)
	if err != nil {
		return err
	}
	var problem string
	revision, at, err := corev1beta1.ParseRestorePoint(value)
	if err != nil {
		problem = err.Error()
	} else if problem, err = restorable.Problem(ctx, r.Garden, shoot, revision, at); err != nil {
		return err
	}
	delete(shoot.Annotations, corev1beta1.AnnotationRestoreBackup)
	if problem != "" {
		r.Events.Eventf(shoot, nil, corev1.EventTypeWarning, corev1beta1.EventBackupNotRestored, "Restore",
			"%s is not restored: %s", value, problem)
		return nil
	}
	if before.Pending() && before.Revision == revision && before.Time.Equal(at) {
		return nil
	}
	return steps.WriteRestoration(ctx, r.Seed, namespace, &steps.Restoration{
		ID: now.UTC().Format("20060102t150405z"), Revision: revision, Time: at, Phase: steps.RestorationRequested,
	})
}

// reportRestore reports a completed restore to the owner.
func (r *Reconciler) reportRestore(ctx context.Context, shoot *corev1beta1.Shoot) error {
	done, err := steps.ReadRestoration(ctx, r.Seed, shoot.Status.TechnicalID)
	if err != nil || done == nil || done.Phase != steps.RestorationDone {
		return err
	}
	r.Events.Eventf(shoot, nil, corev1.EventTypeNormal, corev1beta1.EventBackupRestored, "Restore",
		"etcd has been restored to %s.", done.Point())
	done.Phase = steps.RestorationReported
	return steps.WriteRestoration(ctx, r.Seed, shoot.Status.TechnicalID, done)
}
