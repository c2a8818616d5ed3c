package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func shoot() *corev1beta1.Shoot {
	pool := func(name string, strategy corev1beta1.MachineUpdateStrategy) corev1beta1.Worker {
		return corev1beta1.Worker{Name: name, Minimum: 1, UpdateStrategy: &strategy, Machine: corev1beta1.Machine{
			Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "linux", Version: new("1.0.0")},
		}}
	}
	s := &corev1beta1.Shoot{}
	s.Spec.Kubernetes.Version = "1.35.4"
	s.Spec.Kubernetes.Kubelet = &corev1beta1.KubeletConfig{
		KubeReserved: &corev1beta1.KubeletConfigReserved{CPU: new(resource.MustParse("80m"))},
	}
	s.Spec.Provider.Workers = []corev1beta1.Worker{
		pool("rolling", corev1beta1.AutoRollingUpdate), pool("auto", corev1beta1.AutoInPlaceUpdate),
		pool("manual", corev1beta1.ManualInPlaceUpdate),
	}
	return s
}

func TestOf(t *testing.T) {
	kept := func(names ...string) (out []Pool) {
		for _, name := range names {
			out = append(out, Pool{Name: name, Effect: Kept})
		}
		return out
	}
	for name, test := range map[string]struct {
		edit func(*corev1beta1.Shoot)
		want []Pool
	}{
		"nothing": {func(*corev1beta1.Shoot) {}, kept("rolling", "auto", "manual")},
		"a patch version": {func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.Version = "1.35.5" },
			kept("rolling", "auto", "manual")},
		"a minor version": {func(s *corev1beta1.Shoot) { s.Spec.Kubernetes.Version = "1.36.3" }, []Pool{
			{Name: "rolling", Effect: Rolled, Reasons: []string{"Kubernetes version: 1.35.4 -> 1.36.3"}},
			{Name: "auto", Effect: UpdatedInPlace, Reasons: []string{"Kubernetes version: 1.35.4 -> 1.36.3"}},
			{Name: "manual", Effect: UpdatedOnSelected, Reasons: []string{"Kubernetes version: 1.35.4 -> 1.36.3"}},
		}},
		"machine type and image of one pool": {func(s *corev1beta1.Shoot) {
			s.Spec.Provider.Workers[0].Machine.Type = "large"
			s.Spec.Provider.Workers[0].Machine.Image.Version = new("1.1.0")
		}, append([]Pool{{Name: "rolling", Effect: Rolled, Reasons: []string{
			"machine type: small -> large", "machine image: linux 1.0.0 -> linux 1.1.0",
		}}}, kept("auto", "manual")...)},
		"reservations that move": {func(s *corev1beta1.Shoot) {
			s.Spec.Kubernetes.Kubelet = &corev1beta1.KubeletConfig{
				KubeReserved:   &corev1beta1.KubeletConfigReserved{CPU: new(resource.MustParse("30m"))},
				SystemReserved: &corev1beta1.KubeletConfigReserved{CPU: new(resource.MustParse("50m"))},
			}
		}, kept("rolling", "auto", "manual")},
		"more reservations, which only the new hash counts": {func(s *corev1beta1.Shoot) {
			s.Spec.Kubernetes.Kubelet.KubeReserved.CPU = new(resource.MustParse("90m"))
			s.Spec.Kubernetes.Kubelet.MaxPods = new(int32(50))
		}, []Pool{
			{Name: "rolling", Effect: Rolled, Hash: NewHash, Reasons: []string{"sum of kubeReserved and systemReserved"}},
			{Name: "auto", Effect: UpdatedInPlace, Reasons: []string{"sum of kubeReserved and systemReserved"}},
			{Name: "manual", Effect: UpdatedOnSelected, Reasons: []string{"sum of kubeReserved and systemReserved"}},
		}},
		"configuration of the provider, which only the classic hash counts": {func(s *corev1beta1.Shoot) {
			s.Spec.Provider.Workers[0].ProviderConfig = &runtime.RawExtension{Raw: []byte("{}")}
		}, append([]Pool{{Name: "rolling", Effect: Rolled, Hash: ClassicHash, Reasons: []string{"providerConfig"}}},
			kept("auto", "manual")...)},
		"changes that count together": {func(s *corev1beta1.Shoot) {
			s.Spec.SystemComponents = &corev1beta1.SystemComponents{NodeLocalDNS: &corev1beta1.NodeLocalDNS{Enabled: true}}
			s.Spec.Kubernetes.KubeProxy = &corev1beta1.KubeProxyConfig{Mode: new(corev1beta1.ProxyModeIPVS)}
		}, append([]Pool{{Name: "rolling", Effect: Rolled,
			Reasons: []string{"several changes together", "node-local DNS: false -> true"}}}, kept("auto", "manual")...)},
		"another pool, one pool less, one that grows": {func(s *corev1beta1.Shoot) {
			w := s.Spec.Provider.Workers
			w[0].Name, w[1].Minimum = "new", 3
			s.Spec.Provider.Workers = w[:2]
		}, []Pool{
			{Name: "new", Effect: Created, Machines: "1"}, {Name: "auto", Effect: Kept, Machines: "1 -> 3"},
			{Name: "rolling", Effect: Deleted, Machines: "1 -> 0"}, {Name: "manual", Effect: Deleted, Machines: "1 -> 0"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			after := shoot()
			test.edit(after)
			got, err := Of(shoot(), after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got, err := Of(nil, shoot())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if p.Effect != Created {
			t.Errorf("pool %s of a new Shoot is %s", p.Name, p.Effect)
		}
	}
}

func TestFields(t *testing.T) {
	pool := func(name, machine string) any { return map[string]any{"name": name, "type": machine} }
	before := map[string]any{
		"same": "same", "removed": int64(1), "workers": []any{pool("a", "small"), pool("b", "small")},
		"zones": []any{"a"},
	}
	after := map[string]any{
		"same": "same", "added": true, "workers": []any{pool("b", "large"), pool("c", "small")}, "zones": []any{"a", "b"},
	}
	want := []Field{
		{Path: "spec.added", After: true},
		{Path: "spec.removed", Before: int64(1)},
		{Path: "spec.workers[a]", Before: pool("a", "small")},
		{Path: "spec.workers[b].type", Before: "small", After: "large"},
		{Path: "spec.workers[c]", After: pool("c", "small")},
		{Path: "spec.zones", Before: []any{"a"}, After: []any{"a", "b"}},
	}
	if diff := cmp.Diff(want, fields("spec", before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRestarts(t *testing.T) {
	type spec = map[string]any
	workers := spec{"workers": []any{spec{"name": "pool"}}}
	for name, test := range map[string]struct {
		before, after spec
		want          []Part
	}{
		"nothing": {spec{"purpose": "testing"}, spec{"purpose": "production"}, nil},
		"a version": {
			spec{"provider": workers, "kubernetes": spec{"version": "1.36.1"}},
			spec{"provider": workers, "kubernetes": spec{"version": "1.36.3"}},
			[]Part{
				{"kube-apiserver", []string{"spec.kubernetes.version"}},
				{"kube-controller-manager", []string{"spec.kubernetes.version"}},
				{"kube-scheduler", []string{"spec.kubernetes.version"}},
			},
		},
		"a version, without workers": {
			spec{"kubernetes": spec{"version": "1.36.1"}}, spec{"kubernetes": spec{"version": "1.36.3"}},
			[]Part{
				{"kube-apiserver", []string{"spec.kubernetes.version"}},
				{"kube-controller-manager", []string{"spec.kubernetes.version"}},
			},
		},
		"fields without effect": {
			spec{"kubernetes": spec{}},
			spec{"kubernetes": spec{"kubeAPIServer": spec{"autoscaling": spec{"minAllowed": spec{"cpu": "1"}}}}}, nil,
		},
		"two fields, of which one has no effect": {
			spec{"kubernetes": spec{"kubeAPIServer": spec{"eventTTL": "1h"}}},
			spec{"kubernetes": spec{"kubeAPIServer": spec{"eventTTL": "2h", "enableAnonymousAuthentication": false}}},
			[]Part{{"kube-apiserver", []string{"spec.kubernetes.kubeAPIServer.eventTTL"}}},
		},
		"three members": {
			spec{}, spec{"controlPlane": spec{"highAvailability": spec{"failureTolerance": spec{"type": "node"}}}},
			[]Part{
				{"etcd-main", []string{"spec.controlPlane.highAvailability"}},
				{"kube-apiserver", []string{"spec.controlPlane.highAvailability"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(test.want, Restarts(test.before, test.after)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
