package test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

func (w *world) apiServer(s *corev1beta1.Shoot) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: "kube-apiserver"}, d))
	return d
}

// etcdCommand is what the pods of etcd run.
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

	// Nobody writes while etcd goes back: its flags come after the API servers have gone.
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

	// What follows leaves etcd alone; the same request once more is another one.
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

	// What was encrypted otherwise can't be read any more.
	d := b.apiServer(s)
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, steps.AnnotationRewrittenAt, "2026-01-31T15:00:00Z 1000")
	b.must(b.Client.Patch(b.ctx, d, client.MergeFrom(before)))
	for point, possible := range map[string]bool{
		"revision=999": false, "time=2026-01-31T14:59:59Z": false, "revision=1000": true, "time=2026-01-31T15:00:00Z": true,
	} {
		s = b.until(b.requestRestore(s, point), succeeded)
		e := outcome()
		if possible != strings.Contains(e, corev1beta1.EventBackupRestored) || possible == strings.Contains(e, "from revision 1000") {
			t.Errorf("%s ends with %q", point, e)
		}
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
