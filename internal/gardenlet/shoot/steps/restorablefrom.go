package steps

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/restorable"
)

// RestorableFrom records in the BackupEntry the earliest point to which backups can be restored, once the Shoot is
// complete for the first time, so it is one of the last steps of [Reconcile]. Any earlier point would be a cluster
// without nodes. A change of the encryption moves the point, see EncryptionAtRest.
var RestorableFrom = &flow.Step[*Scope]{
	Name:    "restorable-from",
	SkipIf:  when(withoutBackup, asleep, hibernating, skipReadiness, leaving),
	Ensure:  use3(ensureRestorableFrom),
	Recheck: recheck,
}

func ensureRestorableFrom(ctx context.Context, s *Values, garden *GardenNamespace, etcds Etcds) (flow.Outcome, error) {
	entry := backupEntry(s)
	found, err := kube.Exists(ctx, garden, entry)
	if err != nil || found && entry.Annotations[corev1beta1.AnnotationRestorableFrom] != "" {
		return flow.Done(), err
	}
	return etcds.saveRestorable(ctx, s, "The first point that can be restored has to be in a backup")
}

// saveRestorable puts all that etcd holds into the backups, and records that no earlier point can be restored.
func (etcds Etcds) saveRestorable(ctx context.Context, s *Values, why string) (flow.Outcome, error) {
	access, err := etcds.access()
	if err != nil {
		return flow.Outcome{}, err
	}
	access.Endpoint = etcd.ServiceURL(s.Namespace)
	revision, err := etcds.SaveBackup(ctx, access)
	if err != nil {
		return flow.Waiting(waitBackup, fmt.Sprintf("%s: %v", why, err)), nil
	}
	entry := backupEntry(s)
	if found, err := kube.Exists(ctx, etcds.garden, entry); err != nil {
		return flow.Outcome{}, err
	} else if !found {
		return flow.Waiting(waitBackupEntry, fmt.Sprintf("%s: BackupEntry %s does not exist", why, entry.Name)), nil
	}
	from, err := restorable.Of(entry)
	if err != nil {
		return flow.Outcome{}, err
	}
	before := entry.DeepCopy()
	from = from.Later(restorable.Saved(etcds.garden.clock.Now(), revision))
	metav1.SetMetaDataAnnotation(&entry.ObjectMeta, corev1beta1.AnnotationRestorableFrom, from.String())
	if err := etcds.garden.Patch(ctx, entry,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return flow.Outcome{}, fmt.Errorf("record in BackupEntry %q since when it can be restored: %w", entry.Name, err)
	}
	log.FromContext(ctx).Info("Recorded the earliest point to which etcd can be restored", "BackupEntry", klog.KObj(entry),
		"from", from.String())
	return flow.Done(), nil
}
