package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/poolhash"
)

// Effect is what happens to the machines of a pool.
type Effect string

// Effects.
const (
	Kept              Effect = "kept"
	Created           Effect = "created"
	Deleted           Effect = "deleted"
	Rolled            Effect = "rolled"                         // Replaced, some at a time.
	UpdatedInPlace    Effect = "updated in place"               // Some at a time.
	UpdatedOnSelected Effect = "updated in place when selected" // When users label the nodes.
)

// Versions of the hash of a pool.
const (
	ClassicHash = "classic"
	NewHash     = "NewWorkerPoolHash"
)

// Pool is what happens to a worker pool.
type Pool struct {
	Name   string `json:"name"`
	Effect Effect `json:"effect"`
	// Hash is set if the machines are only replaced in pools with this hash. Which one a pool has depends on the gardenlet
	// that created its machines, and is not known in the garden.
	Hash string `json:"hash,omitempty"`
	// Machines is set if the number of machines changes.
	Machines string `json:"machines,omitempty"`
	// Reasons are the changes that replace or update machines.
	Reasons []string `json:"reasons,omitempty"`
}

// input is one of the inputs of a hash.
type input struct {
	name string
	show func(p *poolhash.Pool) string // Empty for inputs that are too long.
	copy func(to, from *poolhash.Pool)
}

var inputs = []input{
	{"Kubernetes version", func(p *poolhash.Pool) string { return p.KubernetesVersion },
		func(to, from *poolhash.Pool) { to.KubernetesVersion = from.KubernetesVersion }},
	{"machine type", func(p *poolhash.Pool) string { return p.MachineType },
		func(to, from *poolhash.Pool) { to.MachineType = from.MachineType }},
	{"machine image", func(p *poolhash.Pool) string { return p.ImageName + " " + p.ImageVersion },
		func(to, from *poolhash.Pool) { to.ImageName, to.ImageVersion = from.ImageName, from.ImageVersion }},
	{"volume", func(p *poolhash.Pool) string {
		if p.Volume == nil {
			return "none"
		}
		return strings.TrimSpace(p.Volume.Size + " " + ptr.Deref(p.Volume.Type, ""))
	}, func(to, from *poolhash.Pool) { to.Volume = from.Volume }},
	{"providerConfig", nil, func(to, from *poolhash.Pool) { to.ProviderConfig = from.ProviderConfig }},
	{"container runtime", func(p *poolhash.Pool) string { return cmp.Or(p.CRIName, "none") },
		func(to, from *poolhash.Pool) { to.CRIName = from.CRIName }},
	{"node-local DNS", func(p *poolhash.Pool) string { return fmt.Sprint(p.NodeLocalDNS) },
		func(to, from *poolhash.Pool) { to.NodeLocalDNS = from.NodeLocalDNS }},
	{"kube-proxy in mode IPVS", func(p *poolhash.Pool) string { return fmt.Sprint(p.IPVS) },
		func(to, from *poolhash.Pool) { to.IPVS = from.IPVS }},
	{"sum of kubeReserved and systemReserved", nil, func(to, from *poolhash.Pool) {
		k := kubeletOf(to)
		k.KubeReserved, k.SystemReserved = kubeletOf(from).KubeReserved, kubeletOf(from).SystemReserved
		to.Kubelet = k
	}},
	{"evictionHard of the kubelet", nil, func(to, from *poolhash.Pool) {
		k := kubeletOf(to)
		k.EvictionHard = kubeletOf(from).EvictionHard
		to.Kubelet = k
	}},
	{"cpuManagerPolicy of the kubelet",
		func(p *poolhash.Pool) string { return ptr.Deref(kubeletOf(p).CPUManagerPolicy, "none") },
		func(to, from *poolhash.Pool) {
			k := kubeletOf(to)
			k.CPUManagerPolicy = kubeletOf(from).CPUManagerPolicy
			to.Kubelet = k
		}},
}

// kubeletOf returns a copy of the kubelet's configuration, empty if the pool has none.
func kubeletOf(p *poolhash.Pool) *corev1beta1.KubeletConfig {
	if p.Kubelet == nil {
		return &corev1beta1.KubeletConfig{}
	}
	return p.Kubelet.DeepCopy()
}

// hashes of the machines of a pool, by their name in [Pool].
var (
	classic = []func(poolhash.Pool) (string, error){
		poolhash.KeyV1, func(p poolhash.Pool) (string, error) { return poolhash.ClassV1(p) },
	}
	latest  = []func(poolhash.Pool) (string, error){poolhash.KeyV2}
	inPlace = []func(poolhash.Pool) (string, error){poolhash.InPlace}
)

// reasons are the inputs whose change alone changes one of the hashes; empty if no hash changes.
func reasons(hashes []func(poolhash.Pool) (string, error), before, after poolhash.Pool) ([]string, error) {
	differ := func(a, b poolhash.Pool) (bool, error) {
		for _, hash := range hashes {
			x, err := hash(a)
			if err != nil {
				return false, err
			}
			y, err := hash(b)
			if err != nil {
				return false, err
			}
			if x != y {
				return true, nil
			}
		}
		return false, nil
	}
	if changed, err := differ(before, after); err != nil || !changed {
		return nil, err
	}
	var out []string
	for _, in := range inputs {
		one := before
		in.copy(&one, &after)
		changed, err := differ(before, one)
		switch {
		case err != nil:
			return nil, err
		case changed && in.show != nil:
			out = append(out, fmt.Sprintf("%s: %s -> %s", in.name, in.show(&before), in.show(&after)))
		case changed:
			out = append(out, in.name)
		}
	}
	if len(out) == 0 { // Several changes have an effect only together, as the mode of kube-proxy and the DNS cache.
		out = []string{"several changes together"}
	}
	return out, nil
}

// Of returns what an edit does to the pools of a Shoot, in the order of the edited Shoot; deleted pools are the last.
// before is nil for a new Shoot. Both have the defaults of the API server.
func Of(before, after *corev1beta1.Shoot) ([]Pool, error) {
	var former []corev1beta1.Worker
	if before != nil {
		former = before.Spec.Provider.Workers
	}
	var out []Pool
	for i := range after.Spec.Provider.Workers {
		is := &after.Spec.Provider.Workers[i]
		j := slices.IndexFunc(former, func(w corev1beta1.Worker) bool { return w.Name == is.Name })
		if j < 0 {
			out = append(out, Pool{Name: is.Name, Effect: Created, Machines: fmt.Sprint(is.Minimum)})
			continue
		}
		was := &former[j]
		p, err := changeOf(is, poolhash.FromShoot(before, was), poolhash.FromShoot(after, is))
		if err != nil {
			return nil, fmt.Errorf("worker pool %q: %w", is.Name, err)
		}
		if was.Minimum != is.Minimum {
			p.Machines = fmt.Sprintf("%d -> %d", was.Minimum, is.Minimum)
		}
		out = append(out, p)
	}
	for i := range former {
		was := &former[i]
		if !slices.ContainsFunc(after.Spec.Provider.Workers, func(w corev1beta1.Worker) bool { return w.Name == was.Name }) {
			out = append(out, Pool{Name: was.Name, Effect: Deleted, Machines: fmt.Sprintf("%d -> 0", was.Minimum)})
		}
	}
	return out, nil
}

func changeOf(pool *corev1beta1.Worker, before, after poolhash.Pool) (Pool, error) {
	out := Pool{Name: pool.Name, Effect: Kept}
	if pool.UpdatesInPlace() {
		why, err := reasons(inPlace, before, after)
		if len(why) > 0 {
			out.Effect, out.Reasons = UpdatedInPlace, why
			if *pool.UpdateStrategy == corev1beta1.ManualInPlaceUpdate {
				out.Effect = UpdatedOnSelected
			}
		}
		return out, err
	}
	byClassic, err := reasons(classic, before, after)
	if err != nil {
		return out, err
	}
	byNew, err := reasons(latest, before, after)
	if err != nil {
		return out, err
	}
	switch {
	case len(byClassic) == 0 && len(byNew) == 0:
	case len(byNew) == 0:
		out.Effect, out.Hash, out.Reasons = Rolled, ClassicHash, byClassic
	case len(byClassic) == 0:
		out.Effect, out.Hash, out.Reasons = Rolled, NewHash, byNew
	default:
		out.Effect = Rolled
		for _, why := range append(byNew, byClassic...) {
			if !slices.Contains(out.Reasons, why) {
				out.Reasons = append(out.Reasons, why)
			}
		}
	}
	return out, nil
}
