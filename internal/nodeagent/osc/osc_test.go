package osc

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite golden files")

func defaultValues() Values {
	return Values{
		Type:              "hortus-machine",
		SecretName:        "gardener-node-agent-pool-0123456789abcdef",
		KubernetesVersion: "1.36.3",
		APIServerURL:      "https://api.s.p.internal.local.hortus.dev",
		CABundle:          []byte("-----BEGIN CERTIFICATE-----\ncluster\n-----END CERTIFICATE-----\n"),
		KubeletCABundle:   []byte("-----BEGIN CERTIFICATE-----\nclient\n-----END CERTIFICATE-----\n"),
		HortusImage:       "hortus.dev/hortus:dev",
		KubeletImage:      "hortus.dev/kubelet:v1.36.3",
		SandboxImage:      "registry.k8s.io/pause:3.10.1",
		ClusterDNS:        []string{"100.64.0.10"},
		Labels: map[string]string{
			"worker.gardener.cloud/pool": "pool", "node.kubernetes.io/role": "node", "node-role.kubernetes.io/worker": "",
		},
		AuthorizedKeys: []byte("ssh-rsa new\nssh-rsa old\n"),
	}
}

func configuredValues() Values {
	v := defaultValues()
	v.Type = "suse-chost"
	v.AuthorizedKeys = nil
	v.RootCAs = []byte("-----BEGIN CERTIFICATE-----\nroot\n-----END CERTIFICATE-----\n")
	v.Taints = []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	v.Kubelet = &corev1beta1.KubeletConfig{
		CPUManagerPolicy: ptr.To("static"),
		EvictionHard:     &corev1beta1.KubeletConfigEviction{MemoryAvailable: ptr.To("300Mi")},
		KubeReserved: &corev1beta1.KubeletConfigReserved{
			CPU: ptr.To(resource.MustParse("200m")), PID: ptr.To(resource.MustParse("20k")),
		},
		MaxPods: ptr.To[int32](60),
	}
	v.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdates{OperatingSystemVersion: "1.0.0", KubeletVersion: "1.36.3"}
	return v
}

func TestGolden(t *testing.T) {
	for name, content := range map[string]any{
		"provision":            Provision(defaultValues()),
		"reconcile":            Reconcile(defaultValues()),
		"reconcile-configured": Reconcile(configuredValues()),
		"access":               Access(),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s mismatch (-want +got):\n%s", golden, cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func TestFilePathsNameFiles(t *testing.T) {
	for name, v := range map[string]Values{"default": defaultValues(), "configured": configuredValues()} {
		t.Run(name, func(t *testing.T) {
			spec := Reconcile(v)
			known := map[string]bool{}
			for _, file := range spec.Files {
				if known[file.Path] {
					t.Errorf("file %s occurs twice", file.Path)
				}
				known[file.Path] = true
			}
			for _, unit := range spec.Units {
				for _, path := range unit.FilePaths {
					if !known[path] {
						t.Errorf("unit %s depends on %s, which is not in the configuration", unit.Name, path)
					}
				}
			}
		})
	}
}

// A rotation of keys, or the end of SSH access, changes one file, but nothing of a unit or of the user data.
func TestKeysRestartNothing(t *testing.T) {
	before := defaultValues()
	for name, keys := range map[string]string{"rotated": "ssh-rsa newer\nssh-rsa new\n", "no access": ""} {
		t.Run(name, func(t *testing.T) {
			after := defaultValues()
			after.AuthorizedKeys = []byte(keys)
			if diff := cmp.Diff(Provision(before), Provision(after)); diff != "" {
				t.Errorf("the user data depends on keys (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(Reconcile(before).Units, Reconcile(after).Units); diff != "" {
				t.Errorf("units depend on keys (-before +after):\n%s", diff)
			}
			got := ""
			for _, file := range Reconcile(after).Files {
				if file.Path == extensionsv1alpha1.AuthorizedKeysFile {
					got = file.Content.Inline.Data
				}
			}
			if got != keys {
				t.Errorf("the file of keys has %q, want %q", got, keys)
			}
			for _, unit := range Reconcile(after).Units {
				if slices.Contains(unit.FilePaths, extensionsv1alpha1.AuthorizedKeysFile) {
					t.Errorf("unit %s is restarted when keys change", unit.Name)
				}
			}
		})
	}
}

func TestLabelFlag(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"labels outside the reserved domains are set": {
			map[string]string{"b": "2", "example.com/a": "1"}, "b=2,example.com/a=1",
		},
		"node labels a kubelet may set are set": {
			map[string]string{"node.kubernetes.io/role": "node"}, "node.kubernetes.io/role=node",
		},
		"roles are left out": {map[string]string{"node-role.kubernetes.io/worker": ""}, ""},
		"a domain that only ends alike is not reserved": {
			map[string]string{"my-kubernetes.io/x": "1"}, "my-kubernetes.io/x=1",
		},
		"architecture and zone of the machine are known": {map[string]string{
			"kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a",
		}, "kubernetes.io/arch=amd64,topology.kubernetes.io/zone=a"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, labelFlag(tc.labels)); diff != "" {
				t.Errorf("labelFlag mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// The hash of a pool uses the resources that the kubelet reserves: defaults only add resources that the Shoot reserves
// under neither name.
func TestReservationsReachTheKubelet(t *testing.T) {
	type amounts = map[string]string
	reserved := func(a amounts) *corev1beta1.KubeletConfigReserved {
		if a == nil {
			return nil
		}
		out := &corev1beta1.KubeletConfigReserved{}
		for name, field := range map[string]**resource.Quantity{
			"cpu": &out.CPU, "memory": &out.Memory, "ephemeral-storage": &out.EphemeralStorage, "pid": &out.PID,
		} {
			if text, set := a[name]; set {
				*field = ptr.To(resource.MustParse(text))
			}
		}
		return out
	}
	for name, tc := range map[string]struct{ kube, system, wantKube, wantSystem amounts }{
		"defaults": {wantKube: amounts{"cpu": "80m", "memory": "1Gi"}},
		"for the kubelet only": {
			kube: amounts{"memory": "2Gi", "pid": "20k"}, wantKube: amounts{"cpu": "80m", "memory": "2Gi", "pid": "20k"},
		},
		"for the system only": {
			system: amounts{"memory": "512Mi", "ephemeral-storage": "1Gi"}, wantKube: amounts{"cpu": "80m"},
			wantSystem: amounts{"memory": "512Mi", "ephemeral-storage": "1Gi"},
		},
		"for both": {
			kube: amounts{"cpu": "40m", "memory": "512Mi"}, system: amounts{"cpu": "60m"},
			wantKube: amounts{"cpu": "40m", "memory": "512Mi"}, wantSystem: amounts{"cpu": "60m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := configuredValues()
			v.Kubelet = &corev1beta1.KubeletConfig{KubeReserved: reserved(tc.kube), SystemReserved: reserved(tc.system)}
			var got struct{ KubeReserved, SystemReserved amounts }
			if err := yaml.Unmarshal([]byte(v.kubeletConfig()), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantKube, got.KubeReserved); diff != "" {
				t.Errorf("kubeReserved (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantSystem, got.SystemReserved); diff != "" {
				t.Errorf("systemReserved (-want +got):\n%s", diff)
			}
		})
	}
}
