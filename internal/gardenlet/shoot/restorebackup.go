package shoot

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/kube"
)

// startRestore records in the seed that a backup is to be restored, and takes the request out of the annotations; writeStart
// writes that. After a stop in between the record is there, and the same request continues it. A request that can't be met is
// answered by an event.
func (r *Reconciler) startRestore(ctx context.Context, shoot *corev1beta1.Shoot, namespace string, now time.Time) error {
	value, requested := shoot.Annotations[corev1beta1.AnnotationRestoreBackup]
	if !requested {
		return nil
	}
	before, err := steps.ReadRestoration(ctx, r.Seed, namespace)
	if err != nil {
		return err
	}
	server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: kubeapiserver.Name}}
	if _, err := kube.Exists(ctx, r.Seed, server); err != nil {
		return err
	}
	delete(shoot.Annotations, corev1beta1.AnnotationRestoreBackup)
	revision, at, err := corev1beta1.ParseRestorePoint(value)
	if err == nil {
		err = beforeRewrite(server.Annotations[steps.AnnotationRewrittenAt], revision, at)
	}
	if err != nil {
		r.Events.Eventf(shoot, nil, corev1.EventTypeWarning, corev1beta1.EventBackupNotRestored, "Restore", "%s is not restored: %v", value, err)
		return nil
	}
	if before.Pending() && before.Revision == revision && before.Time.Equal(at) {
		return nil
	}
	return steps.WriteRestoration(ctx, r.Seed, namespace, &steps.Restoration{
		ID: now.UTC().Format("20060102t150405z"), Revision: revision, Time: at, Phase: steps.RestorationRequested,
	})
}

// beforeRewrite says why a point in time can't be restored: objects in it may be encrypted with a key or in a way that the API
// servers have unlearned. rewritten is when all objects had been written anew, as time and revision.
func beforeRewrite(rewritten string, revision int64, at time.Time) error {
	first, second, _ := strings.Cut(rewritten, " ")
	since, err := time.Parse(time.RFC3339, first)
	if err != nil {
		return nil //nolint:nilerr // The encryption has never been changed.
	}
	sinceRevision, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		return fmt.Errorf("read since when etcd is encrypted as it is: %w", err)
	}
	if revision > 0 && revision < sinceRevision || revision == 0 && at.Before(since) {
		return fmt.Errorf("the encryption of etcd has been changed since, and what was encrypted before can't be read any more. "+
			"Points from revision %d, %s, on can be restored", sinceRevision, first)
	}
	return nil
}

// reportRestore tells the owner that a restore is done.
func (r *Reconciler) reportRestore(ctx context.Context, shoot *corev1beta1.Shoot) error {
	done, err := steps.ReadRestoration(ctx, r.Seed, shoot.Status.TechnicalID)
	if err != nil || done == nil || done.Phase != steps.RestorationDone {
		return err
	}
	r.Events.Eventf(shoot, nil, corev1.EventTypeNormal, corev1beta1.EventBackupRestored, "Restore", "etcd has been restored to %s.", done.Point())
	done.Phase = steps.RestorationReported
	return steps.WriteRestoration(ctx, r.Seed, shoot.Status.TechnicalID, done)
}
