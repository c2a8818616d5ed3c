package plan

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/poolhash"
	"hortus.dev/hortus/internal/maintenance"
)

// For random updates of random Shoots, the pools that are rolled, or updated in place, according to a plan are those
// whose hash changes, in either version of the hash. A plan only updates versions, so both hashes agree about all of
// its changes.
func TestPlannedRollsAreThoseOfTheHashes(t *testing.T) {
	const runs = 2000
	strategies := []corev1beta1.MachineUpdateStrategy{
		corev1beta1.AutoRollingUpdate, corev1beta1.AutoInPlaceUpdate, corev1beta1.ManualInPlaceUpdate,
	}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 0))
		version := func() string { return "1." + strconv.Itoa(33+r.IntN(3)) + "." + strconv.Itoa(r.IntN(3)) }
		shoot := &corev1beta1.Shoot{}
		shoot.Spec.Kubernetes.Version = version()
		s := &simulation{shoot: &Shoot{manual: map[string]bool{}}}
		for i := range 1 + r.IntN(4) {
			strategy := strategies[r.IntN(len(strategies))]
			w := corev1beta1.Worker{Name: "p" + strconv.Itoa(i), UpdateStrategy: &strategy}
			w.Machine.Image = &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0." + strconv.Itoa(r.IntN(2)))}
			pool := maintenance.Pool{Name: w.Name, InPlace: strategy != corev1beta1.AutoRollingUpdate}
			if r.IntN(2) == 0 {
				pool.Kubernetes = version()
				w.Kubernetes = &corev1beta1.WorkerKubernetes{Version: ptr.To(pool.Kubernetes)}
			}
			s.shoot.manual[w.Name] = strategy == corev1beta1.ManualInPlaceUpdate
			s.cluster.Pools = append(s.cluster.Pools, pool)
			shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, w)
		}
		before := shoot.DeepCopy()
		w := &shoot.Spec.Provider.Workers[r.IntN(len(shoot.Spec.Provider.Workers))]
		item := &maintenance.Item{Subject: maintenance.ControlPlane, To: version()}
		minor := false
		switch {
		case r.IntN(3) == 0:
			item.Subject, item.Pool, item.To = maintenance.PoolImage, w.Name, "1.1.0"
			w.Machine.Image.Version = ptr.To(item.To)
		case r.IntN(2) == 0 && w.Kubernetes != nil:
			item.Subject, item.Pool, item.From = maintenance.PoolKubernetes, w.Name, *w.Kubernetes.Version
			w.Kubernetes.Version = ptr.To(item.To)
			minor = minorOf(item.From) != minorOf(item.To)
		default:
			item.From = shoot.Spec.Kubernetes.Version
			shoot.Spec.Kubernetes.Version = item.To
			minor = minorOf(item.From) != minorOf(item.To)
		}
		planned := map[string]bool{}
		for _, e := range s.effects(item, minor) {
			planned[e.Pool] = e.Effect != EffectKubeletRestart
		}
		for i := range shoot.Spec.Provider.Workers {
			old, now := &before.Spec.Provider.Workers[i], &shoot.Spec.Provider.Workers[i]
			for version, hash := range map[string]func(poolhash.Pool) (string, error){
				"classic": func(p poolhash.Pool) (string, error) { return poolhash.ClassV1(p) },
				"new":     poolhash.KeyV2, "in place": poolhash.InPlace,
			} {
				if updatesInPlace := s.cluster.Pools[i].InPlace; updatesInPlace != (version == "in place") {
					continue
				}
				a, err := hash(poolhash.FromShoot(before, old))
				if err != nil {
					t.Fatal(err)
				}
				b, err := hash(poolhash.FromShoot(shoot, now))
				if err != nil {
					t.Fatal(err)
				}
				if (a != b) != planned[now.Name] {
					t.Fatalf("seed %d: %s %s from %q to %q: pool %s, %s hash changes: %t, planned: %t",
						seed, item.Subject, item.Pool, item.From, item.To, now.Name, version, a != b, planned[now.Name])
				}
			}
		}
	}
}
