package simulation

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/gardenlet/backupentry"
	"hortus.dev/hortus/internal/gardenlet/shoot"
	"hortus.dev/hortus/internal/gardenlet/shootstate"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/ownership"
	"hortus.dev/hortus/test/sim"
)

const seedsOfMoves = 1

// addBackup gives a seed a bucket.
func (r *shootRun) addBackup(name string) {
	seed := named[corev1beta1.Seed]("", name)
	if err := r.garden.Edit(seed, func() {
		seed.Spec.Backup = &corev1beta1.Backup{Provider: providerType, CredentialsRef: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: "dns",
		}}
	}); err != nil {
		r.T.Fatal(err)
	}
	if err := r.garden.EditStatus(seed, func() { seed.Status.ObservedGeneration = seed.Generation }); err != nil {
		r.T.Fatal(err)
	}
	b := named[corev1beta1.BackupBucket]("", string(seed.UID))
	b.Spec.Provider, b.Spec.SeedName = corev1beta1.BackupBucketProvider{Type: providerType, Region: "r"}, new(name)
	b.Spec.CredentialsRef = seed.Spec.Backup.CredentialsRef
	b.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
	}
	r.garden.Add(b)
}

// addMoves adds the controllers of a gardenlet that take part in moves.
func (r *shootRun) addMoves(p *sim.Process, h *hosting, states *shootstate.States) error {
	garden, seed := p.In(r.garden).Direct(), p.In(h.seed)
	entries := &backupentry.Reconciler{
		Garden: garden, Seed: seed.Direct(), Clock: r.now, Events: p.GetEventRecorder("gardenlet"), SeedName: h.name,
	}
	leftovers := &shoot.Leftovers{
		Garden: garden, Shoots: p.GetClient(), Seed: seed.Direct(), Clock: r.now, SeedName: h.name, InOrder: true,
	}
	saver := &shootstate.Reconciler{
		Garden: garden, Shoots: p.GetClient(), Clock: r.now, Events: p.GetEventRecorder("gardenlet"), States: states,
		SyncPeriod: shootSync, Jitter: maintenance.HashJitter(0),
	}
	return errors.Join(entries.AddToManager(p, seed, 1), leftovers.AddToManager(p, seed),
		saver.AddToManager(p, seed.NewCache(shootstate.CacheOptions(h.seed.Scheme())), 1))
}

// addEntries makes an extension that gives etcd access to its place in the bucket.
func (o *provider) addEntries(p *sim.Process) error {
	entries := keepers[*extensionsv1alpha1.BackupEntry](o, p.In(o.cloud).Direct(), extensionsv1alpha1.BackupEntryKind,
		func(ctx context.Context, _ *extensionsv1alpha1.BackupEntry) (string, error) {
			access := named[corev1.Secret](controlPlane, "etcd-backup")
			return "", client.IgnoreAlreadyExists(client.IgnoreNotFound(ignoreEnding(p.GetClient().Create(ctx, access))))
		})
	type reconciler = extension.Reconciler[*extensionsv1alpha1.BackupEntry]
	return entries.add(p, &extensionsv1alpha1.BackupEntry{}, func(r *reconciler) {
		r.WithoutCluster = true
		r.SecretRef = func(e *extensionsv1alpha1.BackupEntry) *corev1.SecretReference { return &e.Spec.SecretRef }
	})
}

// destination does what the garden does: it declares the seed to which a Shoot is to move ready for it.
func (r *shootRun) destination(context.Context, client.Client) error {
	s := shootS()
	if !r.garden.Exists(s) {
		return nil
	}
	const kind = corev1beta1.ShootReadyForMigration
	moving := s.Status.SeedName != nil && !ptr.Equal(s.Status.SeedName, s.Spec.SeedName)
	ready := corev1beta1.FindCondition(s.Status.Constraints, kind) != nil
	if moving == ready {
		return nil
	}
	return r.garden.EditStatus(s, func() {
		if s.Status.Constraints = corev1beta1.RemoveCondition(s.Status.Constraints, kind); moving {
			s.Status.Constraints = append(s.Status.Constraints,
				corev1beta1.Condition{Type: kind, Status: corev1beta1.ConditionTrue})
		}
	})
}

// bind binds the control plane to a seed.
func (r *shootRun) bind(name string) {
	r.edit("bind to seed "+name, func(s *corev1beta1.Shoot) { s.Spec.SeedName = new(name) })
}

// moveRules hold after each write.
func (r *shootRun) moveRules() {
	r.Always("one seed runs the control plane", func() error {
		return is(!r.hosts[0].active() || !r.hosts[1].active(), "both seeds do")
	})
	r.Always("no acknowledged write is lost", func() error { return r.hosts[0].bucket.problem })
	r.Always("nothing outside is made twice", func() error { return r.cloud.problem })
	epoch := int64(0)
	r.Always("the ownership goes forward", func() error {
		s := shootS()
		if !r.garden.Exists(s) {
			return nil
		}
		claim, err := ownership.Read(context.Background(), r.garden, s.Namespace, s.UID)
		if err != nil || claim.Epoch < epoch {
			return fmt.Errorf("epoch %d has become %d: %w", epoch, claim.Epoch, err)
		}
		epoch = claim.Epoch
		return nil
	})
}

// moved: the control plane is where it should be, and nothing of it elsewhere.
func (r *shootRun) moved() error {
	s := shootS()
	if err := r.settled(); err != nil {
		return err
	}
	r.garden.Exists(s)
	for _, h := range r.hosts {
		if h.name == *s.Spec.SeedName {
			continue
		}
		if err := h.seed.Gone(named[corev1.Namespace]("", controlPlane),
			named[extensionsv1alpha1.Cluster]("", controlPlane),
			named[extensionsv1alpha1.BackupEntry]("", controlPlane+"--"+string(s.UID))); err != nil {
			return fmt.Errorf("on seed %s: %w", h.name, err)
		}
	}
	return is(ptr.Equal(s.Status.SeedName, s.Spec.SeedName), "it is on seed %s, not %s", *s.Status.SeedName,
		*s.Spec.SeedName)
}

// A Shoot moves between two seeds, whatever fails, and at whatever time its owner changes his mind.
func TestSimulateMovesOfShoots(t *testing.T) {
	sim.RunSeeds(t, seedsOfMoves, func(w *sim.World) {
		r := newShootRun(w, "a", "b")
		r.rules()
		r.moveRules()
		w.Overlap()
		w.Change("create the Shoot", r.garden, create(newShoot("pool")))
		w.Faults(1)
		r.cloud.faulty = false
		w.Eventually(1000, "the Shoot is as specified", r.settled)
		r.cloud.faulty = true
		to := []string{"b", "a"}
		for n := range 2 + w.Random.IntN(2) {
			r.bind(to[n%2])
			if w.Random.IntN(2) == 0 {
				r.configure()
			}
		}
		w.Faults(400)
		r.cloud.faulty = false
		w.Eventually(4000, "the control plane has moved", r.moved)
		r.rests()
		r.cloud.faulty = true
		w.Change("delete the Shoot", r.garden, remove(shootS()))
		w.Faults(100)
		r.cloud.faulty = false
		w.Eventually(3000, "the Shoot is gone", r.gone)
	})
}
