package backupbucket

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backup"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
	"hortus.dev/hortus/internal/kube"
)

// Reconciler creates the buckets of one seed.
type Reconciler struct {
	Garden client.Client // Direct reads and writes: decisions depend on the status, and Secrets are not cached.
	Seed   client.Client // Direct reads and writes.
	Clock  clock.PassiveClock
	Events events.EventRecorder

	SeedName string
	// SyncPeriod is the time after which the credentials are read again.
	SyncPeriod time.Duration
}

// outcome of one pass.
type outcome struct {
	report backup.Report
	// retryAt is the time of the next check without an event; zero for the usual period.
	retryAt time.Time
}

// Reconcile makes one pass over a bucket. It may stop after any write and be repeated.
func (r *Reconciler) Reconcile(ctx context.Context, bucket *corev1beta1.BackupBucket) (reconcile.Result, error) {
	if err := r.Garden.Get(ctx, client.ObjectKeyFromObject(bucket), bucket); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ptr.Deref(bucket.Spec.SeedName, "") != r.SeedName {
		return reconcile.Result{}, nil
	}
	operation, run := backup.Operation(bucket.Status.LastOperation), r.ensure
	if bucket.DeletionTimestamp != nil {
		operation, run = corev1beta1.LastOperationTypeDelete, r.remove
	} else if err := kube.EnsureFinalizer(ctx, r.Garden, bucket, corev1beta1.FinalizerName); err != nil {
		return reconcile.Result{}, err
	}
	before := bucket.DeepCopy()
	result, err := run(ctx, bucket)
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
		err = nil // No event announces the correction, so the bucket is checked every period.
	}
	now := r.Clock.Now()
	backup.Status{LastOperation: &bucket.Status.LastOperation, LastError: &bucket.Status.LastError}.Set(operation,
		result.report, now)
	if err := errors.Join(err, kube.PatchStatus(ctx, r.Garden, bucket, before)); err != nil {
		return reconcile.Result{}, err
	}
	if kind, reason, action := backup.Event(before.Status.LastOperation, bucket.Status.LastOperation); reason != "" {
		log.FromContext(ctx).Info("State of operation has changed", "operation", bucket.Status.LastOperation.Type,
			"state", bucket.Status.LastOperation.State, "description", bucket.Status.LastOperation.Description)
		r.Events.Eventf(bucket, nil, kind, reason, action, "%s", bucket.Status.LastOperation.Description)
	}
	return reconcile.Result{RequeueAfter: r.untilNext(result.retryAt, now)}, nil
}

// untilNext is the pause until the next pass without an event.
func (r *Reconciler) untilNext(retryAt, now time.Time) time.Duration {
	if retryAt.IsZero() {
		return r.SyncPeriod
	}
	return min(max(retryAt.Sub(now), time.Second), r.SyncPeriod)
}

// ensure brings the bucket in line with its spec.
func (r *Reconciler) ensure(ctx context.Context, bucket *corev1beta1.BackupBucket) (*outcome, error) {
	data, err := backup.Credentials(ctx, r.Garden, bucket.Spec.CredentialsRef)
	if err != nil {
		return nil, err
	}
	if err := backup.CopySecret(ctx, r.Seed, backup.BucketSecretPrefix+bucket.Name, data); err != nil {
		return nil, err
	}
	object := extensionBucket(bucket)
	progress, err := extensionobject.Ensure(ctx, r.Seed, extensionobject.Wanted{
		Object: object, Checksum: backup.Checksum(data),
		Force:        bucket.Generation != bucket.Status.ObservedGeneration,
		FailingSince: backup.FailingSince(bucket.Status.LastError),
	}, r.Clock.Now())
	if err != nil {
		return nil, err
	}
	// The extension has received the request for this generation.
	bucket.Status.ObservedGeneration = bucket.Generation
	if progress.State != extensionobject.Done {
		return &outcome{backup.FromExtension(progress), progress.RetryAt}, nil
	}
	if err := r.publish(ctx, bucket, object); err != nil {
		return nil, err
	}
	return &outcome{report: backup.Succeeded("Backup bucket has been successfully reconciled.")}, nil
}

// extensionBucket is the object for the provider's extension.
func extensionBucket(bucket *corev1beta1.BackupBucket) *extensionsv1alpha1.BackupBucket {
	object := &extensionsv1alpha1.BackupBucket{Spec: extensionsv1alpha1.BackupBucketSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: bucket.Spec.Provider.Type,
			ProviderConfig: bucket.Spec.ProviderConfig},
		Region: bucket.Spec.Provider.Region,
		SecretRef: corev1.SecretReference{Namespace: corev1beta1.GardenNamespace,
			Name: backup.BucketSecretPrefix + bucket.Name},
	}}
	object.Name = bucket.Name
	object.Annotations = map[string]string{
		extensionsv1alpha1.AnnotationGeneratedSecretNamespace: corev1beta1.GardenNamespace,
	}
	return object
}
