package poolhash

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func base() Pool {
	return Pool{
		Name: "w", KubernetesVersion: "1.33.2", MachineType: "small", ImageName: "os", ImageVersion: "1.0.0",
		CRIName:        "containerd",
		ProviderConfig: []byte(`{"a":1}`), CAInitiated: "t1", KeyInitiated: "t2",
	}
}

// all computes every hash of a pool, in the order key v1, key v2, in place, class v1.
func all(t *testing.T, p Pool) [4]string {
	t.Helper()
	var out [4]string
	for i, f := range []func(Pool) (string, error){KeyV1, KeyV2, InPlace,
		func(p Pool) (string, error) { return ClassV1(p) }} {
		var err error
		if out[i], err = f(p); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestWhichChangesCount(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Pool)
		want   [4]bool // Whether key v1, key v2, in place and class v1 change.
	}{
		"a patch version of Kubernetes never counts": {func(p *Pool) { p.KubernetesVersion = "1.33.9" }, [4]bool{}},
		"a minor version of Kubernetes counts": {
			func(p *Pool) { p.KubernetesVersion = "1.34.0" }, [4]bool{true, true, true, true},
		},
		"the machine type": {
			func(p *Pool) { p.MachineType = "large" }, [4]bool{false, true, false, true},
		},
		"the image version": {
			func(p *Pool) { p.ImageVersion = "1.1.0" }, [4]bool{false, true, true, true},
		},
		"the image name": {
			func(p *Pool) { p.ImageName = "other" }, [4]bool{false, true, false, true},
		},
		"the volume": {func(p *Pool) {
			p.Volume = &extensionsv1alpha1.Volume{Size: "20Gi", Type: ptr.To("fast")}
		}, [4]bool{false, true, false, true}},
		"the provider's configuration counts only in v1": {
			func(p *Pool) { p.ProviderConfig = []byte(`{"a":2}`) }, [4]bool{false, false, false, true},
		},
		"the container runtime": {
			func(p *Pool) { p.CRIName = "other" }, [4]bool{true, true, false, true},
		},
		"a rotation of the CAs": {
			func(p *Pool) { p.CAInitiated = "t9" }, [4]bool{false, true, true, true},
		},
		"a rotation of the service account key": {
			func(p *Pool) { p.KeyInitiated = "t9" }, [4]bool{false, true, true, true},
		},
		"the DNS cache on nodes": {
			func(p *Pool) { p.NodeLocalDNS = true }, [4]bool{false, true, false, true},
		},
		"reserved resources": {func(p *Pool) {
			p.Kubelet = &corev1beta1.KubeletConfig{
				KubeReserved: &corev1beta1.KubeletConfigReserved{CPU: ptr.To(resource.MustParse("80m"))},
			}
		}, [4]bool{false, true, true, false}},
		"resources reserved for the system": {func(p *Pool) {
			p.Kubelet = &corev1beta1.KubeletConfig{
				SystemReserved: &corev1beta1.KubeletConfigReserved{PID: ptr.To(resource.MustParse("1k"))},
			}
		}, [4]bool{false, true, true, false}},
		"hard eviction": {func(p *Pool) {
			p.Kubelet = &corev1beta1.KubeletConfig{
				EvictionHard: &corev1beta1.KubeletConfigEviction{MemoryAvailable: ptr.To("5%")},
			}
		}, [4]bool{false, true, true, false}},
		"the CPU manager": {func(p *Pool) {
			p.Kubelet = &corev1beta1.KubeletConfig{CPUManagerPolicy: ptr.To("static")}
		}, [4]bool{false, true, true, false}},
		"other kubelet settings never count": {
			func(p *Pool) { p.Kubelet = &corev1beta1.KubeletConfig{MaxPods: ptr.To(int32(50))} }, [4]bool{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := base()
			tc.change(&changed)
			before, after := all(t, base()), all(t, changed)
			var got [4]bool
			for i := range before {
				got[i] = before[i] != after[i]
			}
			if got != tc.want {
				t.Errorf("changed (key v1, key v2, in place, class v1) = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOnlyTheSumOfReservationsCounts(t *testing.T) {
	type amounts struct{ cpu, memory string } // "" for none.
	reserved := func(a *amounts) *corev1beta1.KubeletConfigReserved {
		if a == nil {
			return nil
		}
		out := &corev1beta1.KubeletConfigReserved{}
		if a.cpu != "" {
			out.CPU = ptr.To(resource.MustParse(a.cpu))
		}
		if a.memory != "" {
			out.Memory = ptr.To(resource.MustParse(a.memory))
		}
		return out
	}
	for name, tc := range map[string]struct {
		kube, system, nextKube, nextSystem *amounts
		want                               bool // Whether the hashes change.
	}{
		"half moves": {&amounts{"80m", "1Gi"}, nil, &amounts{"40m", "512Mi"}, &amounts{
			"40m", "512Mi",
		}, false},
		"all moves":          {&amounts{"80m", "1Gi"}, nil, nil, &amounts{"80m", "1Gi"}, false},
		"one resource moves": {&amounts{"80m", "1Gi"}, nil, &amounts{"80m", ""}, &amounts{"", "1Gi"}, false},
		"it moves back": {&amounts{"40m", "1500M"}, &amounts{"40m", "500M"}, &amounts{
			"80m", "2G",
		}, nil, false},
		"they swap units": {
			&amounts{"1", "1Gi"}, &amounts{"500m", "500M"}, &amounts{"500m", "500M"}, &amounts{"1", "1Gi"}, false,
		},
		"another spelling":               {&amounts{"1000m", "1024Mi"}, nil, &amounts{"1", "1Gi"}, nil, false},
		"nothing is reserved explicitly": {&amounts{"80m", ""}, nil, &amounts{"80m", ""}, &amounts{"0", "0"}, false},
		"more for the system":            {&amounts{"80m", "1Gi"}, nil, &amounts{"80m", "1Gi"}, &amounts{"", "1Mi"}, true},
		"another resource":               {&amounts{"1", ""}, nil, &amounts{"", "1"}, nil, true},
		"less than moved": {&amounts{"80m", "1Gi"}, nil, &amounts{"40m", "512Mi"}, &amounts{
			"40m", "511Mi",
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := base(), base()
			before.Kubelet = &corev1beta1.KubeletConfig{KubeReserved: reserved(tc.kube), SystemReserved: reserved(tc.system)}
			after.Kubelet = &corev1beta1.KubeletConfig{
				KubeReserved: reserved(tc.nextKube), SystemReserved: reserved(tc.nextSystem),
			}
			a, b := all(t, before), all(t, after)
			if a[1] != b[1] != tc.want || a[2] != b[2] != tc.want {
				t.Errorf("changed (key v2, in place) = %t, %t, want %t", a[1] != b[1], a[2] != b[2], tc.want)
			}
			if a[0] != b[0] || a[3] != b[3] {
				t.Error("the classic hashes change")
			}
		})
	}
}

// A reservation by one name alone has the same spelling as before the other one counted: another spelling would roll
// machines.
func TestReserved(t *testing.T) {
	for _, text := range []string{"80m", "1Gi", "500M", "1073741824", "20k", "0"} {
		q := ptr.To(resource.MustParse(text))
		if kube, system := Reserved(q, nil), Reserved(nil, q); kube != q.String() || system != q.String() {
			t.Errorf("Reserved(%s) = %q for the kubelet, %q for the system, want %q", text, kube, system, q)
		}
	}
	if got := Reserved(nil, nil); got != "0" {
		t.Errorf("Reserved() = %q, want 0", got)
	}
}

func TestDNSCacheDoesNotCountFrom134(t *testing.T) {
	for name, tc := range map[string]struct {
		ipvs bool
		want bool
	}{
		"without IPVS it does not count": {false, false},
		"with IPVS it counts":            {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			off := base()
			off.KubernetesVersion, off.IPVS = "1.34.1", tc.ipvs
			on := off
			on.NodeLocalDNS = true
			if got := all(t, off)[1] != all(t, on)[1]; got != tc.want {
				t.Errorf("key v2 changed: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestHashesAreStable(t *testing.T) {
	// The values are fixed: a different value after an update of the program would roll every machine.
	want := [4]string{"gardener-node-agent-w-6d652", "gardener-node-agent-w-97bf650f60eac587", "f1a43f86783d54c3", "ef34b"}
	if got := all(t, base()); got != want {
		t.Errorf("hashes = %q, want %q", got, want)
	}
	if got := ClassV2("key"); got != "c7ae0" {
		t.Errorf("ClassV2() = %q, want %q", got, "c7ae0")
	}
	if ClassV2("key") == ClassV2("key", "x") || ClassInPlace("key", "h") == ClassV2("key") {
		t.Error("additional items do not count")
	}
}

func TestFromShootAndWorkerPoolAgree(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	old := metav1.NewTime(now.Add(-time.Hour))
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Kubernetes.Version = "1.36.3"
	worker := corev1beta1.Worker{
		Name: "w", CRI: &corev1beta1.CRI{Name: corev1beta1.CRINameContainerD},
		Machine: corev1beta1.Machine{
			Type: "small", Image: &corev1beta1.ShootMachineImage{Name: "os", Version: ptr.To("1.0.0")},
		},
		Volume: &corev1beta1.Volume{VolumeSize: "20Gi"},
	}
	shoot.Spec.Provider.Workers = []corev1beta1.Worker{worker}
	shoot.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
		CertificateAuthorities: &corev1beta1.CARotation{
			LastInitiationTime:     &now,
			PendingWorkersRollouts: []corev1beta1.PendingWorkersRollout{{Name: "w", LastInitiationTime: &old}},
		},
	}}
	pool := extensionsv1alpha1.WorkerPool{
		Name: "w", MachineType: "small", MachineImage: extensionsv1alpha1.MachineImage{Name: "os", Version: "1.0.0"},
		Volume: &extensionsv1alpha1.Volume{Size: "20Gi"}, KubernetesVersion: ptr.To("1.36.3"),
	}
	a, b := FromShoot(shoot, &worker), FromWorkerPool(shoot, &pool)
	if all(t, a) != all(t, b) {
		t.Errorf("hashes differ:\n%v\n%v", all(t, a), all(t, b))
	}
	if want := old.UTC().String(); a.CAInitiated != want {
		t.Errorf("CAInitiated = %q, want that of the pending roll-out, %q", a.CAInitiated, want)
	}
}
