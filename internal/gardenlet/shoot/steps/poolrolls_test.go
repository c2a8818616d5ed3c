package steps

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/poolhash"
)

func TestDecidePoolKeys(t *testing.T) {
	pool := func(minor, machineType string) poolhash.Pool {
		return poolhash.Pool{Name: "w", KubernetesVersion: "1." + minor + ".0", MachineType: machineType}
	}
	key := func(p poolhash.Pool, version int) string {
		out, err := keyOf(p, version)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	keys := func(p poolhash.Pool, versions ...int) map[int]string {
		out := map[int]string{}
		for _, v := range versions {
			out[v] = key(p, v)
		}
		return out
	}
	was, patched := pool("35", "small"), pool("35", "small")
	patched.KubernetesVersion = "1.35.9"
	has := func(version int, stored ...int) *poolKeys {
		return &poolKeys{CurrentVersion: version, Keys: keys(was, stored...)}
	}
	gets := func(version int, p poolhash.Pool, stored ...int) poolKeys {
		return poolKeys{CurrentVersion: version, Keys: keys(p, stored...)}
	}
	for name, tc := range map[string]struct {
		pool   poolhash.Pool
		stored *poolKeys
		latest int
		want   poolKeys
	}{
		"a new pool gets the new hash":               {was, nil, hashV2, gets(2, was, 2)},
		"a new pool gets the classic hash, gate off": {was, nil, hashV1, gets(1, was, 1)},
		"switching it on changes nothing":            {was, has(1, 1), hashV2, gets(1, was, 1, 2)},
		"the next reconciliation changes nothing":    {was, has(1, 1, 2), hashV2, gets(1, was, 1, 2)},
		"switching it off changes nothing":           {was, has(2, 2), hashV1, gets(2, was, 1, 2)},
		"a trigger of both hashes leads to the new one": {
			pool("36", "small"), has(1, 1, 2), hashV2, gets(2, pool("36", "small"), 2),
		},
		"a trigger of the new hash leads to it": {
			pool("35", "large"), has(1, 1, 2), hashV2, gets(2, pool("35", "large"), 2),
		},
		"a trigger leads back to the classic hash": {
			pool("35", "large"), has(2, 1, 2), hashV1, gets(1, pool("35", "large"), 1),
		},
		"a pool from before the keys were stored": {
			pool("35", "large"), &poolKeys{CurrentVersion: 2}, hashV2, gets(2, pool("35", "large"), 2),
		},
		"a pool from before, gate off":                {was, &poolKeys{CurrentVersion: 2}, hashV1, gets(2, was, 1, 2)},
		"a patch version of Kubernetes is no trigger": {patched, has(1, 1, 2), hashV2, gets(1, was, 1, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []poolKeys
			if tc.stored != nil {
				tc.stored.Name = "w"
				stored = []poolKeys{{Name: "gone", CurrentVersion: 1, Keys: map[int]string{1: "k"}}, *tc.stored}
			}
			got, err := decidePoolKeys([]poolhash.Pool{tc.pool}, stored, tc.latest)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Name = "w"
			if diff := cmp.Diff([]poolKeys{tc.want}, got); diff != "" {
				t.Errorf("decidePoolKeys() (-want +got):\n%s", diff)
			}
			again, err := decidePoolKeys([]poolhash.Pool{tc.pool}, got, tc.latest)
			if diff := cmp.Diff(got, again); diff != "" || err != nil {
				t.Errorf("decidePoolKeys() once more: %v (-first +second):\n%s", err, diff)
			}
		})
	}
	unknown := []poolKeys{{Name: "w", CurrentVersion: 3, Keys: map[int]string{3: "k"}}}
	if _, err := decidePoolKeys([]poolhash.Pool{was}, unknown, hashV2); err == nil {
		t.Error("a version that is not known yet is accepted")
	}
}

// edit changes a Shoot with a pool. According to the documents its machines are replaced with the classic hash, or with
// the new one.
type edit struct {
	name         string
	classic, new bool
	apply        func(*corev1beta1.Shoot, *corev1beta1.Worker, *rand.Rand)
}

func documentedEdits() []edit {
	other := func(r *rand.Rand, was string) string {
		for {
			if now := fmt.Sprintf("%d", r.IntN(1000)); now != was {
				return now
			}
		}
	}
	kubelet := func(s *corev1beta1.Shoot) *corev1beta1.KubeletConfig { return s.Spec.Kubernetes.Kubelet }
	move := func(from, to **resource.Quantity, r *rand.Rand) {
		part := resource.NewMilliQuantity(r.Int64N((*from).MilliValue()+1), resource.DecimalSI)
		(*from).Sub(*part)
		if *to == nil {
			*to = &resource.Quantity{}
		}
		(*to).Add(*part)
	}
	return []edit{
		{"machine type", true, true, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Machine.Type = other(r, w.Machine.Type)
		}},
		{"image name", true, true, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Machine.Image.Name = "os-" + other(r, w.Machine.Image.Name[3:])
		}},
		{"image version", true, true, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Machine.Image.Version = ptr.To(other(r, *w.Machine.Image.Version) + ".0.0")
		}},
		{"volume size", true, true, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Volume.VolumeSize = other(r, w.Volume.VolumeSize) + "Gi"
		}},
		{"volume type", true, true, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Volume.Type = ptr.To(other(r, *w.Volume.Type))
		}},
		{"provider config", true, false, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.ProviderConfig.Raw = []byte(other(r, string(w.ProviderConfig.Raw)))
		}},
		{"minor version", true, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			s.Spec.Kubernetes.Version = "1." + other(r, s.Spec.Kubernetes.Version[2:len(s.Spec.Kubernetes.Version)-2]) + ".0"
		}},
		{"CA rotation", true, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			ca := s.Status.Credentials.Rotation.CertificateAuthorities
			ca.LastInitiationTime = &metav1.Time{Time: ca.LastInitiationTime.Add(time.Duration(1+r.IntN(1000)) * time.Second)}
		}},
		{"CA rotation that the pool waits for", false, false,
			func(s *corev1beta1.Shoot, w *corev1beta1.Worker, _ *rand.Rand) {
				ca := s.Status.Credentials.Rotation.CertificateAuthorities
				if len(ca.PendingWorkersRollouts) == 0 {
					ca.PendingWorkersRollouts = []corev1beta1.PendingWorkersRollout{{
						Name: w.Name, LastInitiationTime: ca.LastInitiationTime.DeepCopy(),
					}}
				}
				ca.LastInitiationTime = &metav1.Time{Time: ca.LastInitiationTime.Add(time.Second)}
			}},
		{"more for the kubelet", false, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			kubelet(s).KubeReserved.CPU.Add(*resource.NewMilliQuantity(1+r.Int64N(100), resource.DecimalSI))
		}},
		{"more for the system", false, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			kubelet(s).SystemReserved.CPU.Add(*resource.NewMilliQuantity(1+r.Int64N(100), resource.DecimalSI))
		}},
		{"reservations move to the system", false, false, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			move(&kubelet(s).KubeReserved.CPU, &kubelet(s).SystemReserved.CPU, r)
		}},
		{"reservations move to the kubelet", false, false, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			move(&kubelet(s).SystemReserved.CPU, &kubelet(s).KubeReserved.CPU, r)
		}},
		{"hard eviction", false, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			e := kubelet(s).EvictionHard
			e.MemoryAvailable = ptr.To(other(r, ptr.Deref(e.MemoryAvailable, "")))
		}},
		{"CPU manager", false, true, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, _ *rand.Rand) {
			k := kubelet(s)
			if *k.CPUManagerPolicy == "none" {
				k.CPUManagerPolicy = ptr.To("static")
			} else {
				k.CPUManagerPolicy = ptr.To("none")
			}
		}},
		{"patch version", false, false, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			v := s.Spec.Kubernetes.Version
			s.Spec.Kubernetes.Version = fmt.Sprintf("%s%d", v[:len(v)-1], r.IntN(10))
		}},
		{"other kubelet settings", false, false, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			kubelet(s).MaxPods = ptr.To(r.Int32N(200))
		}},
		{"soft eviction", false, false, func(s *corev1beta1.Shoot, _ *corev1beta1.Worker, r *rand.Rand) {
			kubelet(s).EvictionSoft = &corev1beta1.KubeletConfigEviction{MemoryAvailable: ptr.To(other(r, ""))}
		}},
		{"size", false, false, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) { w.Maximum = r.Int32N(100) }},
		{"container runtimes", false, false, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.CRI.ContainerRuntimes = []corev1beta1.ContainerRuntime{{Type: other(r, "")}}
		}},
		{"labels", false, false, func(_ *corev1beta1.Shoot, w *corev1beta1.Worker, r *rand.Rand) {
			w.Labels = map[string]string{"a": other(r, "")}
		}},
	}
}

func editedShoot() *corev1beta1.Shoot {
	started := &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes = corev1beta1.Kubernetes{Version: "1.33.0", Kubelet: &corev1beta1.KubeletConfig{
		KubeReserved:     &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse("80m"))},
		SystemReserved:   &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse("20m"))},
		EvictionHard:     &corev1beta1.KubeletConfigEviction{},
		CPUManagerPolicy: ptr.To("none"),
	}}
	shoot.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
		CertificateAuthorities: &corev1beta1.CARotation{LastInitiationTime: started},
	}}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{{
		Name: "w", Machine: corev1beta1.Machine{
			Type: "0", Image: &corev1beta1.ShootMachineImage{Name: "os-0", Version: ptr.To("0.0.0")},
		},
		Volume:         &corev1beta1.Volume{VolumeSize: "0", Type: ptr.To("0")},
		ProviderConfig: &runtime.RawExtension{Raw: []byte("0")},
		CRI:            &corev1beta1.CRI{Name: corev1beta1.CRINameContainerD},
	}}
	return shoot
}

// With random edits, reconciliations and switches of the feature gate, the machines of a pool are replaced exactly when
// an edit is a documented trigger of the pool's hash or of one that is stored for it. The gate alone replaces nothing.
func TestPoolsRollOnDocumentedTriggersOnly(t *testing.T) {
	const runs, editsEach = 300, 12
	edits := documentedEdits()
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 0))
		shoot, latest := editedShoot(), hashV1+r.IntN(2)
		w := &shoot.Spec.Provider.Workers[0]
		var stored []poolKeys
		// identity of the pool's machines: the key of their configuration and the hash of their class.
		identity := func() string {
			t.Helper()
			var err error
			if stored, err = decidePoolKeys(rolledPools(shoot), stored, latest); err != nil {
				t.Fatal(err)
			}
			class := poolhash.ClassV2(stored[0].key())
			if stored[0].CurrentVersion == hashV1 {
				if class, err = poolhash.ClassV1(poolhash.FromShoot(shoot, w)); err != nil {
					t.Fatal(err)
				}
			}
			return fmt.Sprintf("v%d %s", stored[0].CurrentVersion, class)
		}
		before := identity()
		for range editsEach {
			if r.IntN(3) == 0 {
				latest = hashV1 + r.IntN(2)
				if now := identity(); now != before {
					t.Fatalf("seed %d: version %d of the hash: machines change from %s to %s without an edit", seed, latest, before,
						now)
				}
			}
			e := edits[r.IntN(len(edits))]
			waited := len(shoot.Status.Credentials.Rotation.CertificateAuthorities.PendingWorkersRollouts) > 0
			_, knowsNew := stored[0].Keys[hashV2]
			want := stored[0].CurrentVersion == hashV1 && e.classic || knowsNew && e.new
			if waited && e.name == "CA rotation" {
				want = false
			}
			e.apply(shoot, w, r)
			now := identity()
			if (now != before) != want {
				t.Fatalf("seed %d: %s: machines are %s, were %s, want them replaced: %t", seed, e.name, now, before, want)
			}
			before = now
		}
	}
}
