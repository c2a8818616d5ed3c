package steps

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// backupSecret is where etcd finds its place in the bucket: the provider's credentials and the key bucketName. The
// extension makes it for the BackupEntry.
const backupSecret = "etcd-backup"

// BackupEntry is the Shoot's place in the bucket of its seed. It is an object of the garden and outlives the Shoot by
// the grace period.
var BackupEntry = &flow.Step[*Scope]{
	Name:   "backup-entry",
	After:  []*flow.Step[*Scope]{Namespace},
	SkipIf: when(withoutBackup),
	Ensure: use3(ensureBackupEntry),
	Remove: use2(removeBackupEntry),
}

func withoutBackup(s *Values) string {
	return reasonIf(s.SeedObject.Spec.Backup == nil, "no backups on the seed")
}

// backupEntryName is the name of the Shoot's BackupEntry, and the prefix of the keys of its backups in the bucket.
func backupEntryName(s *Values) string { return s.Namespace + "--" + string(s.Shoot.Status.UID) }

// backupSecretFor returns the name of the Secret with access to the bucket, for steps behind BackupEntry; ok is false
// if the Shoot has no backups. While the Shoot is being deleted it has some only if the Secret is there: nothing makes
// it any more.
func backupSecretFor(ctx context.Context, s *Values, seed *SeedNamespace) (name string, ok bool, err error) {
	if withoutBackup(s) != "" {
		return "", false, nil
	}
	if s.Deleting() {
		if ok, err = backupSecretExists(ctx, seed); err != nil || !ok {
			return "", false, err
		}
	}
	return backupSecret, true, nil
}

func backupSecretExists(ctx context.Context, seed *SeedNamespace) (bool, error) {
	return kube.Exists(ctx, seed,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: backupSecret, Namespace: seed.namespace}})
}

func backupEntry(s *Values) *corev1beta1.BackupEntry {
	return &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{Name: backupEntryName(s),
		Namespace: s.Shoot.Namespace}}
}

func ensureBackupEntry(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace,
) (flow.Outcome, error) {
	entry := backupEntry(s)
	found, err := kube.Exists(ctx, garden, entry)
	if err != nil {
		return flow.Outcome{}, err
	}
	before := entry.DeepCopy()
	desireBackupEntry(entry, s)
	switch {
	case !found:
		err = garden.Create(ctx, entry)
	case !extensionobject.SameJSON(before.ObjectMeta, entry.ObjectMeta),
		!extensionobject.SameJSON(before.Spec, entry.Spec):
		err = garden.Patch(ctx, entry, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return flow.Outcome{}, fmt.Errorf("write BackupEntry %q: %w", entry.Name, err)
	}
	if s.SkipReadiness() {
		return flow.Done(), nil
	}
	if reason := backupEntryWaits(entry, s.SeedObject.Name); reason != "" {
		return flow.Waiting(waitBackupEntry, reason), nil
	}
	if found, err := backupSecretExists(ctx, seed); err != nil || found {
		return flow.Done(), err
	}
	return requestBackupSecret(ctx, s, seed, garden, entry)
}

// desireBackupEntry says whose the entry is. When a control plane moves, its backups stay in their bucket.
func desireBackupEntry(entry *corev1beta1.BackupEntry, s *Values) {
	switch {
	case entry.Spec.BucketName == "":
		entry.Spec = corev1beta1.BackupEntrySpec{BucketName: string(s.SeedObject.UID), SeedName: ptr.To(s.SeedObject.Name)}
	case s.Restoring(), s.Claim.TakenOver.From != "":
		takeBackupEntry(entry, s)
	}
	entry.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Name: s.Shoot.Name, UID: s.Shoot.UID,
		BlockOwnerDeletion: ptr.To(false),
	}}
	metav1.SetMetaDataAnnotation(&entry.ObjectMeta, backupentry.AnnotationShootPurpose,
		string(ptr.Deref(s.Shoot.Spec.Purpose, corev1beta1.ShootPurposeEvaluation)))
}

// takeBackupEntry makes the entry this seed's. One that is gone is not waited for.
func takeBackupEntry(entry *corev1beta1.BackupEntry, s *Values) {
	entry.Spec.SeedName = ptr.To(s.SeedObject.Name)
	if from := s.Claim.TakenOver.From; from != "" && ptr.Deref(entry.Status.SeedName, "") == from {
		metav1.SetMetaDataAnnotation(&entry.ObjectMeta, corev1beta1.AnnotationSourceIsDead, from)
	}
}

// backupEntryWaits says what a control plane on the seed waits for, "" if the entry is ready. Codes of its errors are
// left out: the credentials are those of the seed, and a Shoot that has Failed would not notice that they work again.
func backupEntryWaits(entry *corev1beta1.BackupEntry, seed string) string {
	status, last := &entry.Status, entry.Status.LastOperation
	switch {
	case entry.DeletionTimestamp != nil:
		return fmt.Sprintf("BackupEntry %s is being deleted before it can be created again", entry.Name)
	case ptr.Deref(entry.Spec.SeedName, "") != seed:
		return fmt.Sprintf("BackupEntry %s is still on Seed %s", entry.Name, ptr.Deref(entry.Spec.SeedName, ""))
	case ptr.Deref(status.SeedName, seed) != seed:
		return fmt.Sprintf("BackupEntry %s is being moved from Seed %s", entry.Name, *status.SeedName)
	case status.LastError != nil:
		return fmt.Sprintf("BackupEntry %s: %s", entry.Name, status.LastError.Description)
	case last != nil && last.State != corev1beta1.LastOperationStateSucceeded:
		return fmt.Sprintf("BackupEntry %s: %s", entry.Name, last.Description)
	case last == nil || status.SeedName == nil || status.ObservedGeneration != entry.Generation:
		return fmt.Sprintf("BackupEntry %s has not been reconciled yet", entry.Name)
	}
	return ""
}

// requestBackupSecret lets an entry be reconciled that succeeded when there was no namespace for its Secret, once.
func requestBackupSecret(
	ctx context.Context, s *Values, seed *SeedNamespace, garden *GardenNamespace, entry *corev1beta1.BackupEntry,
) (flow.Outcome, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if _, err := kube.Exists(ctx, seed, namespace); err != nil {
		return flow.Outcome{}, err
	}
	missing := fmt.Sprintf("BackupEntry %s has no Secret %s in namespace %s", entry.Name, backupSecret, s.Namespace)
	if !backupSecretDue(entry.Status.LastOperation.LastUpdateTime.Time, namespace.CreationTimestamp.Time, s.Started) {
		return flow.Waiting(waitBackupEntry, missing+" although it succeeded"), nil
	}
	before := entry.DeepCopy()
	metav1.SetMetaDataAnnotation(&entry.ObjectMeta, corev1beta1.AnnotationOperation, corev1beta1.OperationReconcile)
	if err := garden.Patch(ctx, entry,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return flow.Outcome{}, fmt.Errorf("reconcile BackupEntry %q: %w", entry.Name, err)
	}
	return flow.Waiting(waitBackupEntry, missing+" yet"), nil
}

// backupSecretDue: the entry succeeded before there was a place for its Secret, or before this operation began. An
// entry that has been reconciled since then creates no Secret, however often that is requested.
func backupSecretDue(succeeded, namespaceCreated, started time.Time) bool {
	// Times of the API are in whole seconds.
	return !succeeded.After(namespaceCreated) || succeeded.Before(started.Truncate(time.Second))
}

// removeBackupEntry requests the deletion. It does not wait: the backups are kept for the grace period. An entry that
// this seed has not got (any more) is not its to delete, unless nobody else could: it was taken over, and not restored.
func removeBackupEntry(ctx context.Context, s *Values, garden *GardenNamespace) (flow.Outcome, error) {
	entry := backupEntry(s)
	found, err := kube.Exists(ctx, garden, entry)
	if err != nil || !found {
		return flow.Done(), err
	}
	if from := s.Claim.TakenOver.From; from != "" && ptr.Deref(entry.Spec.SeedName, "") == from {
		before := entry.DeepCopy()
		takeBackupEntry(entry, s)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := garden.Patch(ctx, entry, patch); err != nil {
			return flow.Outcome{}, fmt.Errorf("take over BackupEntry %q: %w", entry.Name, err)
		}
	}
	if entry.DeletionTimestamp != nil {
		return flow.Done(), nil
	}
	if _, err := garden.applied.Delete(ctx, garden, entry); err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), nil
}
