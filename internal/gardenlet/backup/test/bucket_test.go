package test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/local/provider/credentials"
)

func TestBucketIsMadeAndDeleted(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	b := s.newBucket()
	s.runBucket(b, func() bool { return b.Status.LastOperation != nil })
	if op := b.Status.LastOperation; op.Type != corev1beta1.LastOperationTypeCreate ||
		op.State != corev1beta1.LastOperationStateProcessing {
		t.Errorf("operation after the first pass = %+v, want a creation in progress", op)
	}
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	if !slices.Contains(b.Finalizers, corev1beta1.FinalizerName) {
		t.Errorf("finalizers = %v", b.Finalizers)
	}
	if _, found := w.objects(b.Name); !found {
		t.Error("there is no bucket in the cloud")
	}
	copied := w.secret(w.Client, "garden", "bucket-"+b.Name)
	if diff := cmp.Diff(w.credentials.Data, copied.Data); diff != "" {
		t.Errorf("credentials in the seed mismatch (-want +got):\n%s", diff)
	}
	// Without changes nothing is written.
	before := b.ResourceVersion
	result, err := s.stepBucket(b)
	if err != nil || b.ResourceVersion != before || result.RequeueAfter != s.buckets.SyncPeriod {
		t.Errorf("a pass without changes: %v, %v, resource version %s to %s", result, err, before, b.ResourceVersion)
	}

	w.must(s.garden.Delete(w.ctx, b))
	s.runBucket(b, func() bool { return gone(b) })
	if _, found := w.objects(s.bucketName()); found {
		t.Error("the bucket is still in the cloud")
	}
	if w.secret(w.Client, "garden", "bucket-"+b.Name) != nil {
		t.Error("the credentials are still in the seed")
	}
}

func TestBucketWithWrongCredentialsIsRepaired(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	wrong := maps.Clone(w.credentials.Data)
	wrong[credentials.KeySecretKey] = []byte("wrong")
	w.setCredentials(wrong)
	b := s.newBucket()
	s.runBucket(b, func() bool { return b.Status.LastError != nil })
	if len(b.Status.LastError.Codes) == 0 || state(b.Status.LastOperation) != corev1beta1.LastOperationStateError {
		t.Errorf("error = %+v, operation = %+v, want a code and state Error", b.Status.LastError, b.Status.LastOperation)
	}
	since := b.Status.LastError.LastUpdateTime
	result, err := s.stepBucket(b)
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
		t.Errorf("the credentials are checked again in %v (%v), want within a minute", result.RequeueAfter, err)
	}
	if !b.Status.LastError.LastUpdateTime.Equal(since) {
		t.Error("the same error got a new time")
	}
	w.setCredentials(w.validCredentials())
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	if b.Status.LastError != nil {
		t.Errorf("error after the repair = %+v", b.Status.LastError)
	}

	// Changed credentials are passed on even if the bucket works.
	w.setCredentials(wrong)
	s.runBucket(b, func() bool { return b.Status.LastError != nil })
}

func TestBucketWithoutItsCredentialsIsReported(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	w.must(w.Client.Delete(w.ctx, w.credentials))
	b := s.newBucket()
	result, err := s.stepBucket(b)
	if err != nil || result.RequeueAfter != s.buckets.SyncPeriod {
		t.Errorf("checked again in %v, %v", result.RequeueAfter, err)
	}
	if e := b.Status.LastError; e == nil ||
		!slices.Equal(e.Codes, []corev1beta1.ErrorCode{corev1beta1.ErrorConfigurationProblem}) ||
		!strings.Contains(e.Description, "garden/"+w.credentials.Name) {
		t.Errorf("error = %+v, want a configuration problem that names the Secret", e)
	}
	restored := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: w.credentials.Name},
		Data: w.validCredentials()}
	w.must(w.Client.Create(w.ctx, restored))
	s.runBucket(b, func() bool { return bucketSucceeded(b) })
	// Without the credentials the bucket can still be deleted: the seed has a copy.
	w.must(w.Client.Delete(w.ctx, restored))
	w.must(s.garden.Delete(w.ctx, b))
	s.runBucket(b, func() bool { return gone(b) })
}

func TestBucketInUseIsKept(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	b := s.bucketReady()
	e := s.newEntry(b.Name)
	if err := s.garden.Delete(w.ctx, b); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), e.Name) {
		t.Errorf("deletion of a bucket in use: %v, want it forbidden because of %s", err, e.Name)
	}
	w.must(w.Client.Delete(w.ctx, e))
	w.must(s.garden.Delete(w.ctx, b))
	late := s.newEntry(b.Name) // Created by a client that has not seen the deletion.
	s.runBucket(b, func() bool { return state(b.Status.LastOperation) == corev1beta1.LastOperationStatePending })
	if d := b.Status.LastOperation.Description; !strings.Contains(d,
		"still in use by BackupEntries "+late.Namespace+"/"+late.Name) {
		t.Errorf("description = %q, want the entry in it", d)
	}
	if _, found := w.objects(b.Name); !found {
		t.Error("the bucket was deleted although an entry uses it")
	}
	w.must(w.Client.Delete(w.ctx, late))
	s.runBucket(b, func() bool { return gone(b) })
}

// Some extensions generate credentials for the bucket alone; entries get those.
func TestGeneratedCredentialsArePublished(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	b := s.bucketReady()
	own := maps.Clone(w.validCredentials())
	own["generated"] = []byte("yes")
	generated := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "made-for-" + b.Name}, Data: own}
	w.Create(t, generated)
	object := &extensionsv1alpha1.BackupBucket{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Name: b.Name}, object))
	if got := object.Annotations[extensionsv1alpha1.AnnotationGeneratedSecretNamespace]; got != "garden" {
		t.Errorf("the extension has to put the Secret into namespace %q", got)
	}
	object.Status.GeneratedSecretRef = &corev1.SecretReference{Namespace: "garden", Name: generated.Name}
	object.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"kind":"Status"}`)}
	w.must(w.Client.Status().Update(w.ctx, object))
	s.runBucket(b, func() bool { return b.Status.GeneratedSecretRef != nil })
	if want := (corev1.SecretReference{Namespace: "garden",
		Name: "generated-bucket-" + b.Name}); *b.Status.GeneratedSecretRef != want {
		t.Errorf("generatedSecretRef = %+v, want %+v", b.Status.GeneratedSecretRef, want)
	}
	published := w.secret(w.Client, "garden", "generated-bucket-"+b.Name)
	if diff := cmp.Diff(own, published.Data); diff != "" ||
		!slices.Contains(published.Finalizers, corev1beta1.FinalizerBackupBucket) {
		t.Errorf("published Secret mismatch (-want +got):\n%s\nfinalizers %v", diff, published.Finalizers)
	}

	e := s.newEntry(b.Name)
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	if string(w.secret(w.Client, "garden", "entry-"+e.Name).Data["generated"]) != "yes" {
		t.Error("the entry does not get the generated credentials")
	}
	entry := &extensionsv1alpha1.BackupEntry{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Name: e.Name}, entry))
	if entry.Spec.BackupBucketProviderStatus == nil ||
		!strings.Contains(string(entry.Spec.BackupBucketProviderStatus.Raw), "Status") {
		t.Errorf("backupBucketProviderStatus = %v", entry.Spec.BackupBucketProviderStatus)
	}
	w.must(w.Client.Delete(w.ctx, e))
	s.runEntry(e, func() bool { return gone(e) })
	w.must(s.garden.Delete(w.ctx, b))
	s.runBucket(b, func() bool { return gone(b) })
	if w.secret(w.Client, "garden", "generated-bucket-"+b.Name) != nil {
		t.Error("the published Secret is still there")
	}
}
