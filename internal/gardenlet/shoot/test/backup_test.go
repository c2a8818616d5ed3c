package test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
)

// backups is a world whose seed has backups, with the gardenlet's controller of BackupEntries and a simulated
// extension.
type backups struct {
	*world
	entries *backupentry.Reconciler
	bucket  *corev1beta1.BackupBucket
	// idle: the controller of BackupEntries does nothing.
	idle bool
}

func newBackups(t *testing.T) *backups {
	t.Helper()
	return newBackupsAt(t, clocktesting.NewFakeClock(began))
}

// newBackupsAt creates backups with the clock of another one.
func newBackupsAt(t *testing.T, clock *clocktesting.FakeClock) *backups {
	t.Helper()
	b := &backups{world: newWorldAt(t, clock)}
	before := b.seed.DeepCopy()
	b.seed.Spec.Backup = &corev1beta1.Backup{Provider: "local", CredentialsRef: b.seed.Spec.DNS.Provider.CredentialsRef}
	b.must(b.Client.Patch(b.ctx, b.seed, client.MergeFrom(before)))
	b.seed.Status.ObservedGeneration = b.seed.Generation
	b.must(b.Client.Status().Update(b.ctx, b.seed))
	b.bucket = &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: string(b.seed.UID)},
		Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"},
			SeedName: ptr.To(b.seed.Name), CredentialsRef: b.seed.Spec.Backup.CredentialsRef,
		}}
	b.Create(t, b.bucket)
	b.bucket.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
		LastUpdateTime: metav1.NewTime(b.clock.Now()),
	}
	b.must(b.Client.Status().Update(b.ctx, b.bucket))
	b.entries = &backupentry.Reconciler{
		Garden: b.gardenlet, Seed: b.Client, Clock: b.clock, Events: events.NewFakeRecorder(1000), SeedName: b.seed.Name,
	}
	return b
}

// entriesAct makes one pass of the controller of BackupEntries and one of the extension.
func (b *backups) entriesAct() {
	b.t.Helper()
	if b.idle {
		return
	}
	entries, objects := &corev1beta1.BackupEntryList{}, &extensionsv1alpha1.BackupEntryList{}
	b.must(b.Client.List(b.ctx, entries, client.InNamespace(b.namespace)))
	for i := range entries.Items {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&entries.Items[i])}
		_, err := reconcile.AsReconciler(b.Client, b.entries).Reconcile(b.ctx, request)
		b.must(err)
	}
	b.must(b.Client.List(b.ctx, objects))
	ofProject := "shoot--" + strings.TrimPrefix(b.namespace, "garden-") + "--"
	for i := range objects.Items {
		o := &objects.Items[i]
		if o.Annotations[extensionsv1alpha1.AnnotationOperation] == "" || !strings.HasPrefix(o.Name, ofProject) {
			continue
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Name[:strings.LastIndex(o.Name, "--")],
			Name: "etcd-backup"}}
		if err := b.Client.Create(b.ctx, secret); err != nil && !apierrors.IsNotFound(err) &&
			!apierrors.IsAlreadyExists(err) {
			b.t.Fatal(err)
		}
		b.act(o)
	}
}

// until steps the Shoot and all other controllers.
func (b *backups) until(s *corev1beta1.Shoot, holds func(*corev1beta1.Shoot) bool) *corev1beta1.Shoot {
	b.t.Helper()
	return b.run(s, func(s *corev1beta1.Shoot) bool {
		if holds(s) {
			return true
		}
		b.entriesAct()
		return false
	})
}

func (b *backups) entryOf(s *corev1beta1.Shoot) *corev1beta1.BackupEntry {
	b.t.Helper()
	e := &corev1beta1.BackupEntry{}
	err := b.Client.Get(b.ctx, client.ObjectKey{Namespace: s.Namespace,
		Name: s.Status.TechnicalID + "--" + string(s.Status.UID)}, e)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.must(err)
	return e
}

func TestShootGetsAPlaceForItsBackups(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	b.idle = true
	s := b.until(b.newShoot(), func(s *corev1beta1.Shoot) bool {
		return strings.Contains(s.Status.LastOperation.Description, "has not been reconciled yet") &&
			strings.Contains(s.Status.LastOperation.Description, "BackupEntry")
	})
	e := b.entryOf(s)
	if e.Spec.BucketName != b.bucket.Name || ptr.Deref(e.Spec.SeedName, "") != b.seed.Name ||
		e.Annotations["shoot.gardener.cloud/purpose"] != "evaluation" {
		t.Errorf("entry = %+v, annotations %v", e.Spec, e.Annotations)
	}
	if o := e.OwnerReferences; len(o) != 1 || o[0].UID != s.UID || o[0].Kind != "Shoot" ||
		ptr.Deref(o[0].BlockOwnerDeletion, true) {
		t.Errorf("owners = %+v", o)
	}
	b.idle = false
	s = b.until(s, succeeded)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Status.TechnicalID, Name: "etcd-backup"}}
	b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(secret), secret))

	// As after a new namespace: the entry is reconciled once more, and the Secret is created again.
	b.must(b.Client.Delete(b.ctx, secret))
	b.clock.Step(time.Hour)
	s = b.until(s, func(s *corev1beta1.Shoot) bool {
		return succeeded(s) && s.Status.LastOperation.Type == corev1beta1.LastOperationTypeReconcile
	})
	b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(secret), secret))

	b.delete(s)
	b.until(s, gone)
	if e = b.entryOf(s); e == nil || e.DeletionTimestamp == nil {
		t.Fatalf("entry of the deleted Shoot = %v, want it in deletion", e)
	}
	for range 3 {
		b.entriesAct()
	}
	if e = b.entryOf(s); e != nil {
		t.Errorf("the entry is still there: %+v", e.Status)
	}
}

func TestShootShowsWhatIsWrongWithItsBackups(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	b.bucket.Status.LastError = &corev1beta1.LastError{Description: "no access",
		Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized}}
	b.must(b.Client.Status().Update(b.ctx, b.bucket))
	s := b.until(b.newShoot(), func(s *corev1beta1.Shoot) bool {
		return strings.Contains(s.Status.LastOperation.Description, "no access")
	})
	if s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed {
		t.Errorf("operation = %+v, want it to continue: the owner cannot change the seed's credentials", s.Status.LastOperation)
	}
	b.bucket.Status.LastError = nil
	b.must(b.Client.Status().Update(b.ctx, b.bucket))
	b.until(s, succeeded)
}
