package operatingsystemconfig

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/osc"
)

type kubelet struct {
	CgroupDriver, CgroupRoot                                          string
	FailCgroupV1, FailSwapOn, MakeIPTablesUtilChains                  bool
	ProtectKernelDefaults, SerializeImagePulls                        bool
	ImageGCHighThresholdPercent, ImageGCLowThresholdPercent, MaxPods  int
	EvictionHard, EvictionSoft, EvictionSoftGracePeriod, KubeReserved map[string]string
	SystemReserved                                                    map[string]string
}

func defaults() kubelet {
	return kubelet{
		CgroupDriver: "cgroupfs", CgroupRoot: "/", ImageGCHighThresholdPercent: 100, ImageGCLowThresholdPercent: 99,
		MaxPods: 110,
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "imagefs.available": "1Gi", "nodefs.available": "1Gi", "nodefs.inodesFree": "1%",
		},
		EvictionSoft:            map[string]string{"memory.available": "200Mi"},
		EvictionSoftGracePeriod: map[string]string{"memory.available": "1m30s"},
		KubeReserved:            map[string]string{"cpu": "80m", "memory": "256Mi"},
	}
}

func TestKubeletInContainer(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	for name, tc := range map[string]struct {
		user *corev1beta1.KubeletConfig
		want func(*kubelet)
	}{
		"defaults": {},
		// Defaulting of Shoots adds percentages of the disk.
		"a share of the host's disk does not count": {
			user: &corev1beta1.KubeletConfig{
				FailSwapOn: ptr.To(true), ImageGCHighThresholdPercent: ptr.To[int32](50),
				ImageGCLowThresholdPercent: ptr.To[int32](40),
				EvictionHard: &corev1beta1.KubeletConfigEviction{
					MemoryAvailable: ptr.To("3%"), ImageFSInodesFree: ptr.To("5%"), NodeFSAvailable: ptr.To("5%"),
					ImageFSAvailable: ptr.To("7Gi"),
				},
				EvictionSoft: &corev1beta1.KubeletConfigEviction{NodeFSAvailable: ptr.To("10%")},
			},
			want: func(k *kubelet) {
				k.EvictionHard["memory.available"], k.EvictionHard["imagefs.available"] = "3%", "7Gi"
			},
		},
		"absolute soft thresholds count": {
			user: &corev1beta1.KubeletConfig{EvictionSoft: &corev1beta1.KubeletConfigEviction{NodeFSAvailable: ptr.To("2Gi")}},
			want: func(k *kubelet) {
				k.EvictionSoft["nodefs.available"], k.EvictionSoftGracePeriod["nodefs.available"] = "2Gi", "1m30s"
			},
		},
		"memory that the user reserves, the default of other machines": {
			user: &corev1beta1.KubeletConfig{KubeReserved: &corev1beta1.KubeletConfigReserved{Memory: quantity("1Gi")}},
			want: func(k *kubelet) { k.KubeReserved["memory"] = "1Gi" },
		},
		"memory that the user reserves for the system": {
			user: &corev1beta1.KubeletConfig{SystemReserved: &corev1beta1.KubeletConfigReserved{Memory: quantity("1Gi")}},
			want: func(k *kubelet) {
				delete(k.KubeReserved, "memory")
				k.SystemReserved = map[string]string{"memory": "1Gi"}
			},
		},
		"settings of the user": {
			user: &corev1beta1.KubeletConfig{
				ProtectKernelDefaults: ptr.To(true), SerializeImagePulls: ptr.To(true), MaxPods: ptr.To[int32](60),
			},
			want: func(k *kubelet) { k.ProtectKernelDefaults, k.SerializeImagePulls, k.MaxPods = true, true, 60 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := osc.Reconcile(osc.Values{Type: Type, KubernetesVersion: "1.36.3", Kubelet: tc.user})
			if err := InContainer(&spec, tc.user); err != nil {
				t.Fatal(err)
			}
			var got kubelet
			content := inlineOf(t, spec.Files, config.KubeletConfigFile)
			if err := yaml.Unmarshal([]byte(content), &got); err != nil {
				t.Fatal(err)
			}
			want := defaults()
			if tc.want != nil {
				tc.want(&want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration mismatch (-want +got):\n%s", diff)
			}
			if !strings.Contains(content, "clientCAFile: ") {
				t.Errorf("fields are lost:\n%s", content)
			}
			again := *spec.DeepCopy()
			if err := InContainer(&again, tc.user); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(spec, again); diff != "" {
				t.Errorf("a second time changes it again:\n%s", diff)
			}
		})
	}
}

// The kubelet's settings may change while the contents stay the same: one's default for other machines is another's
// wish.
func TestChangedContentsFollowTheUser(t *testing.T) {
	user := &corev1beta1.KubeletConfig{
		KubeReserved: &corev1beta1.KubeletConfigReserved{Memory: ptr.To(resource.MustParse("1Gi"))},
	}
	after := osc.Reconcile(osc.Values{Type: Type, KubernetesVersion: "1.36.3"})
	want := osc.Reconcile(osc.Values{Type: Type, KubernetesVersion: "1.36.3", Kubelet: user})
	for _, step := range []struct {
		spec *extensionsv1alpha1.OperatingSystemConfigSpec
		user *corev1beta1.KubeletConfig
	}{{&after, nil}, {&after, user}, {&want, user}} {
		if err := InContainer(step.spec, step.user); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

func TestCgroupsWithoutSystemd(t *testing.T) {
	for name, spec := range map[string]extensionsv1alpha1.OperatingSystemConfigSpec{
		"provision": osc.Provision(osc.Values{Type: Type, KubernetesVersion: "1.36.3"}),
		"reconcile": osc.Reconcile(osc.Values{Type: Type, KubernetesVersion: "1.36.3"}),
	} {
		t.Run(name, func(t *testing.T) {
			before := spec.DeepCopy()
			if err := InContainer(&spec, nil); err != nil {
				t.Fatal(err)
			}
			if got := *spec.CRIConfig.CgroupDriver; got != extensionsv1alpha1.CgroupDriverCgroupfs {
				t.Errorf("cgroup driver %s", got)
			}
			for i, u := range spec.Units {
				was := ptr.Deref(before.Units[i].Content, "")
				want := strings.ReplaceAll(was, "    --runtime-cgroups=/system.slice/containerd.service \\\n", "")
				if got := ptr.Deref(u.Content, ""); got != want {
					t.Errorf("unit %s (-want +got):\n%s", u.Name, cmp.Diff(want, got))
				}
				if u.Name == config.KubeletUnitName && was == want {
					t.Errorf("unit %s has no flag to remove:\n%s", u.Name, was)
				}
			}
		})
	}
}

func TestUnreadableContentsAreReported(t *testing.T) {
	for _, content := range []extensionsv1alpha1.FileContentInline{
		{Encoding: "b64", Data: "?"}, {Data: "- no\n- object"}, {Data: "evictionHard: none"},
	} {
		err := InContainer(&extensionsv1alpha1.OperatingSystemConfigSpec{Files: []extensionsv1alpha1.File{{
			Path: config.KubeletConfigFile, Content: extensionsv1alpha1.FileContent{Inline: &content},
		}}}, nil)
		if err == nil || !strings.Contains(err.Error(), config.KubeletConfigFile) {
			t.Errorf("%q: error %v", content.Data, err)
		}
	}
}

func TestContentsWithoutSettingsGetThem(t *testing.T) {
	for _, content := range []string{"", "null", "kind: KubeletConfiguration"} {
		files := []extensionsv1alpha1.File{{Path: config.KubeletConfigFile, Content: extensionsv1alpha1.FileContent{
			Inline: &extensionsv1alpha1.FileContentInline{Data: content},
		}}}
		if err := InContainer(&extensionsv1alpha1.OperatingSystemConfigSpec{Files: files}, nil); err != nil {
			t.Errorf("%q: %v", content, err)
		} else if got := inlineOf(t, files, config.KubeletConfigFile); !strings.Contains(got, "memory: 256Mi") {
			t.Errorf("%q became\n%s", content, got)
		}
	}
}

func inlineOf(t *testing.T, files []extensionsv1alpha1.File, path string) string {
	t.Helper()
	i := slices.IndexFunc(files, func(f extensionsv1alpha1.File) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no file %s", path)
	}
	return files[i].Content.Inline.Data
}
