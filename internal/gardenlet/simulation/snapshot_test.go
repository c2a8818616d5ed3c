package simulation

import (
	"context"
	"errors"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/gardenlet/shoot/snapshot"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/test/sim"
)

// backupService takes snapshots. Every third attempt fails.
type backupService struct {
	requested, attempts int
	answered            int // The newest request that was made before an attempt.
	during              func()
}

// TakeBackup implements snapshot.Connector.
func (b *backupService) TakeBackup(ctx context.Context, _ steps.EtcdAccess) (etcdbackup.Snapshot, error) {
	before := b.requested
	b.attempts++
	b.during()
	if err := ctx.Err(); err != nil {
		return etcdbackup.Snapshot{}, err // The answer does not reach a process that has ended.
	}
	b.answered = before
	if b.attempts%3 == 0 {
		return etcdbackup.Snapshot{}, errors.New("the store is full")
	}
	return etcdbackup.Snapshot{Revision: int64(b.attempts)}, nil
}

// Each request for a snapshot is answered by an attempt that began after it, also when it comes during another one, and
// when the Shoot moves to another seed.
func TestSimulateSnapshots(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		garden := w.Cluster("garden", sim.Scheme())
		garden.AddNamespaces("garden-dev")
		service := &backupService{}
		shoot := func() *corev1beta1.Shoot { return named[corev1beta1.Shoot]("garden-dev", "s") }
		ask := func() error {
			s := shoot()
			return garden.Edit(s, func() {
				service.requested++
				s.Annotations = map[string]string{corev1beta1.AnnotationTakeBackup: strconv.Itoa(service.requested)}
			})
		}
		extra := 2
		service.during = func() {
			if service.requested > 0 && extra > 0 {
				extra--
				if err := ask(); err != nil {
					t.Errorf("request during a snapshot: %v", err)
				}
			}
		}
		for _, name := range []string{"a", "b"} {
			seed := w.Cluster("seed-"+name, sim.Scheme())
			seed.AddNamespaces(controlPlane)
			set := named[appsv1.StatefulSet](controlPlane, etcd.Name)
			set.Spec.Replicas = ptr.To[int32](1)
			set.Spec.Template.Spec.Containers = []corev1.Container{{
				Name: "etcd", Command: []string{"etcd", "--store-credentials=/x"},
			}}
			seed.Add(set, named[corev1.Secret](controlPlane, etcd.CertificatesName))
			w.Process("gardenlet-"+name, garden, func(p *sim.Process) error {
				return (&snapshot.Reconciler{
					Garden: p.In(garden).Direct(), Seed: p.In(seed).Direct(), Shoots: service,
					Events: p.GetEventRecorder("gardenlet"), SeedName: name,
				}).AddToManager(p)
			})
		}
		first := shoot()
		first.Status.TechnicalID, first.Status.SeedName = controlPlane, ptr.To("a")
		garden.Add(first)

		w.Always("no request disappears without an answer", func() error {
			s := shoot()
			if !garden.Exists(s) {
				return nil
			}
			_, open := s.Annotations[corev1beta1.AnnotationTakeBackup]
			return is(open || service.answered == service.requested, "request %d is gone, the last answer is to %d",
				service.requested, service.answered)
		})
		for range 4 {
			w.Change("request a snapshot", garden, func(context.Context, client.Client) error { return ask() })
		}
		w.Change("the Shoot moves", garden, func(context.Context, client.Client) error {
			s := shoot()
			return garden.EditStatus(s, func() { s.Status.SeedName = ptr.To("b") })
		})
		w.Overlap()
		w.Faults(60)
		w.Eventually(30, "all requests are answered", func() error {
			s := shoot()
			open := garden.Exists(s) && s.Annotations[corev1beta1.AnnotationTakeBackup] != ""
			return is(!open && service.answered == service.requested, "request %d is open: %t, the last answer is to %d",
				service.requested, open, service.answered)
		})
	})
}
