package backupentry

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// unwatchedPeriod is the interval of checks of objects that cannot be watched: Secrets of the garden, and buckets of
// other seeds.
const unwatchedPeriod = time.Minute

// Reconciler manages the entries of one seed.
type Reconciler struct {
	Garden client.Client // Direct reads and writes: decisions depend on the status, and Secrets are not cached.
	Seed   client.Client // Direct reads and writes.
	Clock  clock.PassiveClock
	Events events.EventRecorder

	SeedName string
	Grace    Grace
}

// outcome of one pass.
type outcome struct {
	report backup.Report
	// retryAt is the time of the next check without an event; zero if events suffice.
	retryAt time.Time
}

// Reconcile makes one pass over an entry. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, entry *corev1beta1.BackupEntry) (reconcile.Result, error) {
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(entry), entry); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	d := decide(entry, r.SeedName, r.Grace, now)
	if d.task == nothing {
		return reconcile.Result{}, nil
	}
	if d.task == ensure && entry.DeletionTimestamp == nil {
		if err := kube.EnsureFinalizer(ctx, r.Garden, entry, corev1beta1.FinalizerName); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.claim(ctx, entry, d); err != nil {
		return reconcile.Result{}, err
	}
	before := entry.DeepCopy()
	result, err := r.run(ctx, entry, d)
	if err == nil && result == nil {
		return reconcile.Result{}, nil // Gone.
	}
	if err != nil {
		report, ok := backup.FromError(err)
		if !ok {
			return reconcile.Result{}, err
		}
		result = &outcome{report: report}
	}
	if errors.Is(err, backup.ErrUnusable) {
		result.retryAt, err = now.Add(unwatchedPeriod), nil // No event announces the correction.
	}
	backup.Status{LastOperation: &entry.Status.LastOperation, LastError: &entry.Status.LastError}.Set(d.operation,
		result.report, now)
	if err := errors.Join(err, backup.PatchStatus(ctx, r.Garden, entry, before)); err != nil {
		return reconcile.Result{}, err
	}
	if kind, reason, action := backup.Event(before.Status.LastOperation, entry.Status.LastOperation); reason != "" {
		log.FromContext(ctx).Info("State of operation has changed", "operation", entry.Status.LastOperation.Type,
			"state", entry.Status.LastOperation.State, "description", entry.Status.LastOperation.Description)
		r.Events.Eventf(entry, nil, kind, reason, action, "%s", entry.Status.LastOperation.Description)
	}
	if d.task == ensure && result.report.State == corev1beta1.LastOperationStateSucceeded {
		return reconcile.Result{}, r.finish(ctx, entry)
	}
	if result.retryAt.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(result.retryAt.Sub(now), time.Second)}, nil
}

// claim records which seed uses the entry, before anything is made for it there: whoever sees another seed in the
// spec later knows where to clean up.
func (r *Reconciler) claim(ctx context.Context, entry *corev1beta1.BackupEntry, d decision) error {
	before := entry.DeepCopy()
	switch {
	case d.task == ensure:
		entry.Status.SeedName = ptr.To(r.SeedName)
	case d.task == migrate && entry.Status.MigrationStartTime == nil:
		entry.Status.MigrationStartTime = &metav1.Time{Time: r.Clock.Now()}
	}
	return backup.PatchStatus(ctx, r.Garden, entry, before)
}

func (r *Reconciler) run(ctx context.Context, entry *corev1beta1.BackupEntry, d decision) (*outcome, error) {
	switch d.task {
	case migrate:
		return r.migrate(ctx, entry)
	case remove:
		return r.remove(ctx, entry)
	case wait:
		text := fmt.Sprintf("Deletion of the backups is scheduled for %s", d.until.UTC().Format(time.RFC3339))
		return &outcome{backup.Pending(text), d.until}, nil
	}
	return r.ensure(ctx, entry, d.operation == corev1beta1.LastOperationTypeRestore)
}

// finish removes the requests to restore. They count only once they are done, unlike others, which the API server
// removes.
func (r *Reconciler) finish(ctx context.Context, entry *corev1beta1.BackupEntry) error {
	before := entry.DeepCopy()
	delete(entry.Annotations, corev1beta1.AnnotationSourceIsDead)
	if entry.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationRestore {
		delete(entry.Annotations, corev1beta1.AnnotationOperation)
	}
	if len(entry.Annotations) == len(before.Annotations) {
		return nil
	}
	// The entry may come from a stale cache: a request that was added meanwhile must stay.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Garden.Patch(ctx, entry, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the request to restore BackupEntry %s: %w", client.ObjectKeyFromObject(entry), err)
	}
	return nil
}

// ensure creates a place for the entry in its bucket, or takes over the one that another seed has created.
func (r *Reconciler) ensure(ctx context.Context, entry *corev1beta1.BackupEntry, restore bool) (*outcome, error) {
	now := r.Clock.Now()
	bucket := &corev1beta1.BackupBucket{}
	err := r.Garden.Get(ctx, client.ObjectKey{Name: entry.Spec.BucketName}, bucket)
	if apierrors.IsNotFound(err) {
		return &outcome{backup.Failed(fmt.Sprintf("BackupBucket %s does not exist", entry.Spec.BucketName)),
			now.Add(unwatchedPeriod)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read BackupBucket %q: %w", entry.Spec.BucketName, err)
	}
	if problem := unusable(bucket); problem != nil {
		result := &outcome{report: *problem}
		if ptr.Deref(bucket.Spec.SeedName, "") != r.SeedName {
			result.retryAt = now.Add(unwatchedPeriod)
		}
		return result, nil
	}
	data, err := backup.CredentialsOfBucket(ctx, r.Garden, bucket)
	if err != nil {
		return nil, err
	}
	if err := backup.CopySecret(ctx, r.Seed, backup.EntrySecretPrefix+entry.Name, data); err != nil {
		return nil, err
	}
	progress, err := extensionobject.Ensure(ctx, r.Seed, extensionobject.Wanted{
		Object: extensionEntry(entry, bucket), Restore: restore, Checksum: backup.Checksum(data),
		Force:        entry.Generation != entry.Status.ObservedGeneration,
		FailingSince: backup.FailingSince(entry.Status.LastError),
	}, now)
	if err != nil {
		return nil, err
	}
	// The extension has received the request for this generation.
	entry.Status.ObservedGeneration = entry.Generation
	if progress.State != extensionobject.Done {
		return &outcome{backup.FromExtension(progress), progress.RetryAt}, nil
	}
	entry.Status.MigrationStartTime = nil // What had been handed over in part has been restored.
	return &outcome{report: backup.Succeeded("Backup entry has been successfully reconciled.")}, nil
}
