package test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/poolhash"
)

// TestUpdatesInPlaceEndWithTheMachines has pools with pending updates in place, one of which waits for its user. A
// Shoot that is hibernated has no machines, so nothing is pending, also after further changes. While it wakes up, the
// changed pools are pending until the provider reports their new machines.
func TestUpdatesInPlaceEndWithTheMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.newShoot("rolled")
	change := func(mutate func()) {
		t.Helper()
		before := s.DeepCopy()
		mutate()
		w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	}
	evict := func(memory string) {
		t.Helper()
		change(func() {
			for i := 1; i < len(s.Spec.Provider.Workers); i++ {
				s.Spec.Provider.Workers[i].Kubernetes = &corev1beta1.WorkerKubernetes{Kubelet: &corev1beta1.KubeletConfig{
					EvictionHard: &corev1beta1.KubeletConfigEviction{MemoryAvailable: ptr.To(memory)},
				}}
			}
		})
	}
	hibernate := func(enabled bool) {
		t.Helper()
		// Care is not part of this test, but hibernation requires its check.
		s.Status.Constraints = []corev1beta1.Condition{
			{Type: corev1beta1.ShootHibernationPossible, Status: corev1beta1.ConditionTrue, Reason: "Test"},
		}
		w.must(w.Client.Status().Update(w.ctx, s))
		change(func() { s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: ptr.To(enabled)} })
	}
	// report is what the provider does when all machines have what the Shoot specifies.
	report := func() {
		t.Helper()
		worker := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Status.TechnicalID, Name: s.Name,
		}}
		w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(worker), worker))
		before := worker.DeepCopy()
		if worker.Status.InPlaceUpdates == nil {
			worker.Status.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdatesWorkerStatus{
				WorkerPoolToHashMap: map[string]string{},
			}
		}
		for i := 1; i < len(s.Spec.Provider.Workers); i++ {
			pool := &s.Spec.Provider.Workers[i]
			hash, err := poolhash.InPlace(poolhash.FromShoot(s, pool))
			w.must(err)
			worker.Status.InPlaceUpdates.WorkerPoolToHashMap[pool.Name] = hash
		}
		w.must(w.Client.Status().Patch(w.ctx, worker, client.MergeFrom(before)))
	}
	pending := func(when string, auto, manual []string) {
		t.Helper()
		want := &corev1beta1.InPlaceUpdatesStatus{
			PendingWorkerUpdates: &corev1beta1.PendingWorkerUpdates{AutoInPlaceUpdate: auto, ManualInPlaceUpdate: manual},
		}
		if len(auto)+len(manual) == 0 {
			want = nil
		}
		if diff := cmp.Diff(want, s.Status.InPlaceUpdates); diff != "" {
			t.Errorf("%s, pending pools (-want +got):\n%s", when, diff)
		}
	}
	processing := func(s *corev1beta1.Shoot) bool {
		return s.Status.ObservedGeneration == s.Generation &&
			s.Status.LastOperation.State == corev1beta1.LastOperationStateProcessing
	}
	auto, byHand := []string{"auto"}, []string{"by-hand"}

	change(func() {
		for name, strategy := range map[string]corev1beta1.MachineUpdateStrategy{
			"auto": corev1beta1.AutoInPlaceUpdate, "by-hand": corev1beta1.ManualInPlaceUpdate,
		} {
			pool := s.Spec.Provider.Workers[0].DeepCopy()
			pool.Name, pool.UpdateStrategy, pool.MaxSurge, pool.MaxUnavailable = name, ptr.To(strategy), nil, nil
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, *pool)
		}
	})
	s = w.run(s, succeeded)
	report()
	evict("70Mi")
	s = w.run(s, processing)
	pending("after a change", auto, byHand)
	s = w.run(s, succeeded)
	pending("after the automatic update", nil, byHand)

	hibernate(true)
	s = w.run(s, processing)
	pending("while the machines are being deleted", auto, byHand)
	s = w.run(s, succeeded)
	pending("without machines", nil, nil)
	evict("80Mi")
	s = w.run(s, succeeded) // In one pass.
	pending("after a change of a hibernated Shoot", nil, nil)

	hibernate(false)
	s = w.run(s, processing)
	pending("while it wakes up", auto, byHand)
	report()
	s = w.run(s, succeeded)
	pending("when it is awake", nil, nil)
}
