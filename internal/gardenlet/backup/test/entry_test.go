package test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/crds"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/test/env"
)

// controlPlane is the namespace in the seed that an entry belongs to.
func controlPlane(e *corev1beta1.BackupEntry) string {
	return e.Name[:strings.LastIndex(e.Name, "--")]
}

// backUp stores an object below the entry's prefix.
func (w *world) backUp(e *corev1beta1.BackupEntry) string {
	w.t.Helper()
	key := e.Name + "/etcd-main/full"
	_, err := w.cloud.Client.PutObject(w.ctx, e.Spec.BucketName, key, strings.NewReader("x"))
	w.must(err)
	return key
}

func (s *seed) extensionEntry(e *corev1beta1.BackupEntry) *extensionsv1alpha1.BackupEntry {
	s.t.Helper()
	o := &extensionsv1alpha1.BackupEntry{}
	err := s.cluster.Get(s.ctx, client.ObjectKey{Name: e.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return o
}

func TestEntryIsMadeAndDeletedWithItsBackups(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	b := s.bucketReady()
	e, other := s.newEntry(b.Name), s.newEntry(b.Name)
	w.ensureNamespace(w.Client, controlPlane(e))
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	if ptr.Deref(e.Status.SeedName, "") != s.object.Name ||
		e.Status.LastOperation.Type != corev1beta1.LastOperationTypeCreate {
		t.Errorf("status = %+v", e.Status)
	}
	data := w.secret(w.Client, controlPlane(e), "etcd-backup").Data
	if string(data["bucketName"]) != b.Name || string(data["accessKeyID"]) != w.cloud.Config.AccessKey {
		t.Errorf("the Secret for etcd has bucket %q and access key %q", data["bucketName"], data["accessKeyID"])
	}
	before := e.ResourceVersion
	if result, err := s.stepEntry(e); err != nil || e.ResourceVersion != before || !result.IsZero() {
		t.Errorf("a pass without changes: %v, %v, resource version %s to %s", result, err, before, e.ResourceVersion)
	}

	w.backUp(e)
	kept := w.backUp(other)
	w.must(w.Client.Delete(w.ctx, e))
	s.runEntry(e, func() bool { return gone(e) })
	if keys, _ := w.objects(b.Name); !slices.Equal(keys, []string{kept}) {
		t.Errorf("objects in the bucket = %v, want only those of the other entry", keys)
	}
	if w.secret(w.Client, "garden", "entry-"+e.Name) != nil || s.extensionEntry(e) != nil {
		t.Error("something of the entry is still in the seed")
	}
}

func TestEntryWaitsForItsBucket(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	wrong := maps.Clone(w.credentials.Data)
	wrong[credentials.KeySecretKey] = []byte("wrong")
	w.setCredentials(wrong)
	b := s.newBucket()
	e := s.newEntry(b.Name)
	if _, err := s.stepEntry(e); err != nil || state(e.Status.LastOperation) != corev1beta1.LastOperationStatePending ||
		!strings.Contains(e.Status.LastOperation.Description, "has not been created yet") {
		t.Errorf("operation without a bucket = %+v, %v", e.Status.LastOperation, err)
	}
	s.runBucket(b, func() bool { return b.Status.LastError != nil })
	if _, err := s.stepEntry(e); err != nil || e.Status.LastError == nil || len(e.Status.LastError.Codes) > 0 ||
		!strings.Contains(e.Status.LastError.Description, "is not ready: ") {
		t.Errorf("error with a failing bucket = %+v, %v, want one without codes", e.Status.LastError, err)
	}
	if s.extensionEntry(e) != nil {
		t.Error("the extension gets a request although there is no bucket")
	}
	w.setCredentials(w.validCredentials())
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	s.runEntry(e, func() bool { return entrySucceeded(e) })
}

func TestEntryGetsTheCredentialsOfItsBucket(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	b := s.bucketReady()
	e := s.newEntry(b.Name)
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	first := s.extensionEntry(e).Annotations[extensionsv1alpha1.AnnotationTimestamp]
	changed := w.validCredentials()
	changed["comment"] = []byte("rotated")
	w.setCredentials(changed)
	_, err := s.stepEntry(e)
	w.must(err)
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	if diff := cmp.Diff(changed, w.secret(w.Client, "garden", "entry-"+e.Name).Data); diff != "" {
		t.Errorf("credentials mismatch (-want +got):\n%s", diff)
	}
	if s.extensionEntry(e).Annotations[extensionsv1alpha1.AnnotationTimestamp] == first {
		t.Error("the extension got no request for the new credentials")
	}
	if op := e.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeReconcile {
		t.Errorf("operation = %+v", op)
	}
	// A user can request it, too.
	second := s.extensionEntry(e).Annotations[extensionsv1alpha1.AnnotationTimestamp]
	w.annotate(e, corev1beta1.AnnotationOperation, corev1beta1.OperationReconcile)
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	if s.extensionEntry(e).Annotations[extensionsv1alpha1.AnnotationTimestamp] == second {
		t.Error("the extension got no second request")
	}
}

func (w *world) annotate(o client.Object, key, value string) {
	w.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
	w.must(w.Client.Patch(w.ctx, o, client.MergeFrom(before)))
}

func TestBackupsAreKeptForTheGracePeriod(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	s.entries.Grace = backupentry.Grace{Period: 24 * time.Hour,
		Purposes: []corev1beta1.ShootPurpose{corev1beta1.ShootPurposeProduction}}
	b := s.bucketReady()
	purpose := func(p corev1beta1.ShootPurpose) func(*corev1beta1.BackupEntry) {
		return func(e *corev1beta1.BackupEntry) {
			e.Annotations = map[string]string{"shoot.gardener.cloud/purpose": string(p)}
		}
	}
	kept, forced := s.newEntry(b.Name, purpose(corev1beta1.ShootPurposeProduction)), s.newEntry(b.Name,
		purpose(corev1beta1.ShootPurposeProduction))
	tried := s.newEntry(b.Name, purpose(corev1beta1.ShootPurposeTesting))
	for _, e := range []*corev1beta1.BackupEntry{kept, forced, tried} {
		s.runEntry(e, func() bool { return entrySucceeded(e) })
		w.backUp(e)
		w.must(w.Client.Delete(w.ctx, e))
	}
	s.runEntry(tried, func() bool { return gone(tried) })
	for _, e := range []*corev1beta1.BackupEntry{kept, forced} {
		result, err := s.stepEntry(e)
		if err != nil || state(e.Status.LastOperation) != corev1beta1.LastOperationStatePending ||
			result.RequeueAfter < 23*time.Hour {
			t.Errorf("operation in the grace period = %+v, next check in %v, %v", e.Status.LastOperation, result.RequeueAfter,
				err)
		}
	}
	w.annotate(forced, corev1beta1.AnnotationBackupEntryForceDeletion, "true")
	s.runEntry(forced, func() bool { return gone(forced) })
	if keys, _ := w.objects(b.Name); len(keys) != 1 || !strings.HasPrefix(keys[0], kept.Name) {
		t.Errorf("objects in the bucket = %v, want those of %s", keys, kept.Name)
	}
	clock.Step(24 * time.Hour)
	s.runEntry(kept, func() bool { return gone(kept) })
	if keys, _ := w.objects(b.Name); len(keys) != 0 {
		t.Errorf("objects after the grace period = %v", keys)
	}
}

func TestEntryMovesToAnotherSeed(t *testing.T) {
	w := newWorld(t)
	other := env.Start(t, env.WithCRDs(crds.Seed()...), seedScheme)
	source, destination := w.newSeed(w.Client), w.newSeed(other.Client)
	b := source.bucketReady()
	destination.bucketReady()
	e := source.newEntry(b.Name)
	source.runEntry(e, func() bool { return entrySucceeded(e) })
	kept := w.backUp(e)
	const first = "2026-01-31T15:00:00Z 1000"
	w.annotate(e, corev1beta1.AnnotationRestorableFrom, first)

	before := e.DeepCopy()
	e.Spec.SeedName = ptr.To(destination.object.Name)
	w.must(w.Client.Patch(w.ctx, e, client.MergeFrom(before)))
	// The destination does nothing until the source has released the entry.
	if _, err := destination.stepEntry(e); err != nil || destination.extensionEntry(e) != nil {
		t.Errorf("the destination has begun: %v", err)
	}
	source.runEntry(e, func() bool { return e.Status.SeedName == nil })
	if op := e.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeMigrate ||
		op.State != corev1beta1.LastOperationStateSucceeded {
		t.Errorf("operation = %+v, want Migrate Succeeded", op)
	}
	if source.extensionEntry(e) != nil || w.secret(source.cluster, "garden", "entry-"+e.Name) != nil {
		t.Error("something of the entry is still in the source")
	}
	if keys, _ := w.objects(b.Name); !slices.Equal(keys, []string{kept}) {
		t.Errorf("objects in the bucket = %v, want those from before", keys)
	}
	// A source that is late cannot read the entry any more, as soon as the authorizer has seen the change.
	env.Eventually(t, "the source is refused", func() (bool, error) {
		_, err := source.stepEntry(e)
		return apierrors.IsForbidden(err), err
	})
	if source.extensionEntry(e) != nil {
		t.Error("the source continues")
	}

	destination.runEntry(e, func() bool { return entrySucceeded(e) && e.Status.SeedName != nil })
	if op := e.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeRestore ||
		*e.Status.SeedName != destination.object.Name {
		t.Errorf("operation = %+v on seed %s, want Restore on the destination", op, *e.Status.SeedName)
	}
	if o := destination.extensionEntry(e); o.Status.LastOperation.Type != corev1beta1.LastOperationTypeRestore ||
		o.Spec.BucketName != b.Name {
		t.Errorf("extension object = %+v, want it restored", o)
	}
	if got := e.Annotations[corev1beta1.AnnotationRestorableFrom]; got != first {
		t.Errorf("after the move, the first restorable point is %q, want %q", got, first)
	}
	// The seed that has taken over the backups can delete them.
	w.must(w.Client.Delete(w.ctx, e))
	destination.runEntry(e, func() bool { return gone(e) })
	if keys, _ := w.objects(b.Name); len(keys) != 0 {
		t.Errorf("objects after the deletion = %v", keys)
	}
}

func TestEntryThatIsDeletedWhileItMovesLeavesNothing(t *testing.T) {
	w := newWorld(t)
	other := env.Start(t, env.WithCRDs(crds.Seed()...), seedScheme)
	source, destination := w.newSeed(w.Client), w.newSeed(other.Client)
	b := source.bucketReady()
	e := source.newEntry(b.Name)
	source.runEntry(e, func() bool { return entrySucceeded(e) })
	w.backUp(e)
	before := e.DeepCopy()
	e.Spec.SeedName = ptr.To(destination.object.Name)
	w.must(w.Client.Patch(w.ctx, e, client.MergeFrom(before)))
	w.must(w.Client.Delete(w.ctx, e))
	source.runEntry(e, func() bool { return e.Status.SeedName == nil })
	destination.runEntry(e, func() bool { return gone(e) })
	if keys, _ := w.objects(b.Name); len(keys) != 0 {
		t.Errorf("objects after the deletion = %v", keys)
	}
}
