package test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/restorable"
)

func (w *world) apiServer(s *corev1beta1.Shoot) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "kube-apiserver"}, d))
	return d
}

// etcdCommand is the command of etcd's pods.
func (w *world) etcdCommand(s *corev1beta1.Shoot) []string {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "etcd-main"}, set))
	return set.Spec.Template.Spec.Containers[0].Command
}

// requestRestore annotates the Shoot.
func (w *world) requestRestore(s *corev1beta1.Shoot, point string) *corev1beta1.Shoot {
	w.t.Helper()
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationRestoreBackup, point)
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s
}

func TestBackupIsRestoredInPlace(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	s := b.until(b.newShoot(), succeeded)
	recorder := events.NewFakeRecorder(100)
	b.r.Events = recorder
	outcome := func() string {
		t.Helper()
		for len(recorder.Events) > 0 {
			if e := <-recorder.Events; strings.Contains(e, "Restored") {
				return e
			}
		}
		return ""
	}
	if slices.ContainsFunc(b.etcdCommand(s), func(arg string) bool { return strings.HasPrefix(arg, "--restore-id") }) {
		t.Fatal("etcd is restored without a request")
	}

	// Nobody writes while etcd is restored: its flags are set after the API servers have stopped.
	stopped := false
	s = b.until(b.requestRestore(s, "revision=42"), func(s *corev1beta1.Shoot) bool {
		replicas := ptr.Deref(b.apiServer(s).Spec.Replicas, 1)
		flagged := slices.Contains(b.etcdCommand(s), "--until-revision=42")
		stopped = stopped || replicas == 0
		if flagged && !stopped {
			t.Fatal("etcd is restored while an API server runs")
		}
		return succeeded(s)
	})
	if _, left := s.Annotations[corev1beta1.AnnotationRestoreBackup]; left || !stopped {
		t.Errorf("the request is still there: %t; the API server was stopped: %t", left, stopped)
	}
	command := b.etcdCommand(s)
	if *b.apiServer(s).Spec.Replicas != 1 || !slices.Contains(command, "--until-revision=42") {
		t.Errorf("the API server has %d replicas, etcd runs %v", *b.apiServer(s).Spec.Replicas, command)
	}
	if e := outcome(); !strings.Contains(e, corev1beta1.EventBackupRestored) || !strings.Contains(e, "revision 42") {
		t.Errorf("event is %q", e)
	}

	// Later reconciliations do not change etcd; a repeated request is a new one.
	s = b.until(b.annotateOperation(s, corev1beta1.OperationReconcile), succeeded)
	if !slices.Equal(b.etcdCommand(s), command) {
		t.Errorf("a reconciliation changes etcd: %v", b.etcdCommand(s))
	}
	if e := outcome(); e != "" {
		t.Errorf("a reconciliation reports %q", e)
	}
	s = b.until(b.requestRestore(s, "revision=42"), succeeded)
	if slices.Equal(b.etcdCommand(s), command) {
		t.Error("another request for the same revision does nothing")
	}
	outcome()

	// The API server rejects points that are too early. The gardenlet does, too, if the first restorable point has changed
	// since the request.
	for point, possible := range map[string]bool{
		"revision=999": false, "time=2026-01-31T14:59:59Z": false, "revision=1000": true, "time=2026-01-31T15:00:00Z": true,
	} {
		b.restorableFrom(s, "2026-01-01T00:00:00Z 1")
		s = b.requestRestore(s, point)
		b.restorableFrom(s, "2026-01-31T15:00:00Z 1000")
		s = b.until(s, succeeded)
		if _, left := s.Annotations[corev1beta1.AnnotationRestoreBackup]; left {
			t.Errorf("%s: the request is still there", point)
		}
		e := outcome()
		if possible != strings.Contains(e, corev1beta1.EventBackupRestored) ||
			possible == strings.Contains(e, "from revision 1000") {
			t.Errorf("%s ends with %q", point, e)
		}
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationRestoreBackup, "revision=999")
	if err := b.Client.Update(b.ctx, s); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "from revision 1000, 2026-01-31T15:00:00Z") {
		t.Errorf("the API server answers %v", err)
	}
	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}

// restorableFrom sets the annotation of the Shoot's BackupEntry, or removes it.
func (b *backups) restorableFrom(s *corev1beta1.Shoot, value string) {
	b.t.Helper()
	e := b.entryOf(s)
	before := e.DeepCopy()
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, corev1beta1.AnnotationRestorableFrom, value)
	if value == "" {
		delete(e.Annotations, corev1beta1.AnnotationRestorableFrom)
	}
	b.must(b.Client.Patch(b.ctx, e, client.MergeFrom(before)))
}

func TestFirstPointThatCanBeRestored(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	from := func(s *corev1beta1.Shoot) string {
		t.Helper()
		return b.entryOf(s).Annotations[corev1beta1.AnnotationRestorableFrom]
	}
	expect := func(when string, s *corev1beta1.Shoot, earliest time.Time, revision int64) {
		t.Helper()
		p, err := restorable.Parse(from(s))
		if err != nil || p.Revision != revision || p.Time.Before(earliest) || p.Time.After(b.clock.Now()) {
			t.Errorf("%s: the first restorable point is %q, want revision %d after %s, %v", when, p, revision, earliest, err)
		}
	}
	// The creation succeeds only after the point has been recorded.
	b.saveError = errors.New("the bucket is away")
	s := b.until(b.newShoot(), func(s *corev1beta1.Shoot) bool {
		return strings.Contains(s.Status.LastOperation.Description,
			"The first point that can be restored has to be in a backup: the bucket is away")
	})
	if got := from(s); got != "" {
		t.Errorf("during the creation the first restorable point is %q", got)
	}
	b.saveError = nil
	b.clock.Step(time.Minute)
	begin := b.clock.Now()
	s = b.until(s, succeeded)
	expect("after the creation", s, begin, 10)

	// A reconciliation without a change neither saves nor writes.
	b.revision, b.saves = 20, 0
	version := b.entryOf(s).ResourceVersion
	b.clock.Step(time.Minute)
	s = b.until(b.annotateOperation(s, corev1beta1.OperationReconcile), succeeded)
	if now := b.entryOf(s).ResourceVersion; b.saves != 0 || now != version {
		t.Errorf("a reconciliation saves %d times; the BackupEntry is version %s, was %s", b.saves, now, version)
	}

	// A Shoot of an earlier release has no recorded point.
	b.restorableFrom(s, "")
	begin = b.clock.Now()
	s = b.until(b.annotateOperation(s, corev1beta1.OperationReconcile), succeeded)
	expect("after an upgrade", s, begin, 20)

	// After a rotation of the key, earlier backups cannot be read. The record stays when the control plane is created
	// again.
	b.revision = 30
	b.clock.Step(time.Minute)
	begin = b.clock.Now()
	s = b.until(b.annotateOperation(s, corev1beta1.OperationRotateETCDEncryptionKey), rotated)
	expect("after the rotation of the key", s, begin, 30)
	b.must(b.Client.Delete(b.ctx, b.apiServer(s)))
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationRestoreBackup, "revision=29")
	if err := b.Client.Update(b.ctx, s); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "from revision 30") {
		t.Errorf("the API server answers %v", err)
	}
	s = b.until(s, succeeded)

	// Clocks may be set back, but points stay.
	b.restorableFrom(s, "2100-01-01T00:00:00Z 35")
	b.revision = 40
	s = b.until(b.annotateOperation(s, corev1beta1.OperationRotateETCDEncryptionKey), rotated)
	if got := from(s); got != "2100-01-01T00:00:00Z 40" {
		t.Errorf("after another rotation the first restorable point is %q", got)
	}
	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}

func (w *world) annotateOperation(s *corev1beta1.Shoot, operation string) *corev1beta1.Shoot {
	w.t.Helper()
	before := s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, corev1beta1.AnnotationOperation, operation)
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s
}
