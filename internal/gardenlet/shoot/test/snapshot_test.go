package test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shoot/snapshot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

// TakeBackup connects to the service of the test instead of the one in the seed, with the same certificates.
func (c connector) TakeBackup(ctx context.Context, access steps.EtcdAccess) (etcdbackup.Snapshot, error) {
	access.Endpoint = c.backupService
	return (&shoot.Connector{Now: c.clock.Now}).TakeBackup(ctx, access)
}

func TestSnapshotsAreTakenOnRequest(t *testing.T) {
	t.Parallel()
	b := newBackups(t)
	s := b.until(b.newShoot(), succeeded)
	tk := &taker{}
	b.serveBackups(s.Status.TechnicalID, tk)
	recorder := events.NewFakeRecorder(10)
	r := &snapshot.Reconciler{
		Garden: b.gardenlet, Seed: b.Client, Shoots: connector{b.world}, Events: recorder, SeedName: b.seed.Name,
	}
	step := func() {
		t.Helper()
		_, err := reconcile.AsReconciler(b.Client, r).Reconcile(b.ctx,
			reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		b.must(err)
		b.must(b.Client.Get(b.ctx, client.ObjectKeyFromObject(s), s))
		if _, left := s.Annotations[corev1beta1.AnnotationTakeBackup]; left {
			t.Error("the request is still there")
		}
	}
	step()
	if tk.taken.Load() != nil || len(recorder.Events) > 0 {
		t.Error("a snapshot is taken that nobody has requested")
	}
	b.annotate(s, corev1beta1.AnnotationTakeBackup)
	step()
	if kind := tk.taken.Load(); kind == nil || *kind != chain.Full {
		t.Errorf("taken is %v", kind)
	}
	if e := <-recorder.Events; !strings.Contains(e, corev1beta1.EventBackupTaken) || !strings.Contains(e, "revision 7") {
		t.Errorf("event is %q", e)
	}
	tk.err = errors.New("the store is full")
	b.annotate(s, corev1beta1.AnnotationTakeBackup)
	step()
	if e := <-recorder.Events; !strings.Contains(e, corev1beta1.EventBackupFailed) ||
		!strings.Contains(e, "the store is full") {
		t.Errorf("event is %q", e)
	}
	b.delete(s)
	b.until(s, gone)
	for range 3 {
		b.entriesAct()
	}
}
