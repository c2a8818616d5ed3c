package steps

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/restorable"
)

// RestorableFrom records in the BackupEntry from which point on backups can be restored, once the Shoot has everything
// for the first time. An earlier point would be a cluster without nodes. A change of the encryption moves the point,
// see EncryptionAtRest.
var RestorableFrom = &flow.Step[*Scope]{
	Name: "restorable-from",
	After: []*flow.Step[*Scope]{
		BackupEntry, SystemComponentsReady, Tunnel, NodesUpdated, ExtensionsAfterKubeAPIServer, ExtensionsAfterWorker,
		KubeControllerManager, KubeScheduler, EncryptionAtRest,
	},
	SkipIf:  either(withoutBackup, asleep, hibernating, skipReadiness, leaving),
	Ensure:  ensureRestorableFrom,
	Recheck: recheck,
}

func ensureRestorableFrom(ctx context.Context, s *Scope) (flow.Outcome, error) {
	entry := s.backupEntry()
	found, err := kube.Exists(ctx, s.Garden, entry)
	if err != nil || found && entry.Annotations[corev1beta1.AnnotationRestorableFrom] != "" {
		return flow.Done(), err
	}
	return s.saveRestorable(ctx, "The first point that can be restored has to be in a backup")
}

// saveRestorable puts all that etcd holds into the backups, and records that no earlier point can be restored.
func (s *Scope) saveRestorable(ctx context.Context, why string) (flow.Outcome, error) {
	access, err := s.etcdAccess()
	if err != nil {
		return flow.Outcome{}, err
	}
	access.Endpoint = etcd.ServiceURL(s.Namespace)
	revision, err := s.Shoots.SaveBackup(ctx, access)
	if err != nil {
		return flow.Waiting(fmt.Sprintf("%s: %v", why, err)), nil
	}
	entry := s.backupEntry()
	if found, err := kube.Exists(ctx, s.Garden, entry); err != nil {
		return flow.Outcome{}, err
	} else if !found {
		return flow.Waiting(fmt.Sprintf("%s: BackupEntry %s does not exist", why, entry.Name)), nil
	}
	from, err := restorable.Of(entry)
	if err != nil {
		return flow.Outcome{}, err
	}
	before := entry.DeepCopy()
	from = from.Later(restorable.Saved(s.Clock.Now(), revision))
	metav1.SetMetaDataAnnotation(&entry.ObjectMeta, corev1beta1.AnnotationRestorableFrom, from.String())
	if err := s.Garden.Patch(ctx, entry,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return flow.Outcome{}, fmt.Errorf("record in BackupEntry %q since when it can be restored: %w", entry.Name, err)
	}
	return flow.Done(), nil
}
