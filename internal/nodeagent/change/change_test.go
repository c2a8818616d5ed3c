package change

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

func file(path, data string) extensionsv1alpha1.File {
	return extensionsv1alpha1.File{
		Path: path, Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: data}},
	}
}

func unit(name, content string, filePaths ...string) extensionsv1alpha1.Unit {
	return extensionsv1alpha1.Unit{Name: name, Content: ptr.To(content), FilePaths: filePaths}
}

func dropIn(name, content string) extensionsv1alpha1.DropIn {
	return extensionsv1alpha1.DropIn{Name: name, Content: content}
}

func files(list ...extensionsv1alpha1.File) *Config { return &Config{Files: list} }

func withUnits(c *Config, list ...extensionsv1alpha1.Unit) *Config {
	c.Units = list
	return c
}

func registries(list ...extensionsv1alpha1.RegistryConfig) *Config {
	return &Config{CRI: &extensionsv1alpha1.CRIConfig{
		Name: "containerd", Containerd: &extensionsv1alpha1.ContainerdConfig{Registries: list},
	}}
}

func TestCompute(t *testing.T) {
	for name, tc := range map[string]struct {
		old, next  *Config
		observed   Observed
		unfinished *Changes
		want       Changes // Without Target and Touched.
	}{
		"the first time everything is written": {
			next: withUnits(files(file("/b", "1"), file("/a", "1")), unit("u.service", "c", "/a")),
			want: Changes{WriteFiles: []string{"/a", "/b"}, Units: []Unit{{Name: "u.service", Write: true}}},
		},
		"without changes there is nothing to do": {
			old:  withUnits(files(file("/a", "1")), unit("u.service", "c", "/a")),
			next: withUnits(files(file("/a", "1")), unit("u.service", "c", "/a")),
		},
		"a changed file affects the units that use it, and no others": {
			old:  withUnits(files(file("/a", "1"), file("/b", "1")), unit("u.service", "c", "/a"), unit("v.service", "c", "/b")),
			next: withUnits(files(file("/a", "2"), file("/b", "1")), unit("u.service", "c", "/a"), unit("v.service", "c", "/b")),
			want: Changes{WriteFiles: []string{"/a"}, Units: []Unit{{Name: "u.service"}}},
		},
		"a file with another mode is written": {
			old: files(file("/a", "1")),
			next: files(func() extensionsv1alpha1.File {
				f := file("/a", "1")
				f.Permissions = ptr.To[uint32](0o600)
				return f
			}()),
			want: Changes{WriteFiles: []string{"/a"}},
		},
		"a file that is no longer wanted is deleted": {
			old: files(file("/a", "1"), file("/b", "1")), next: files(file("/b", "1")),
			want: Changes{DeleteFiles: []string{"/a"}},
		},
		"a unit that is no longer wanted is deleted": {
			old: withUnits(files(), unit("u.service", "c")), next: files(),
			want: Changes{Units: []Unit{{Name: "u.service", Delete: true, DeleteFile: true}}},
		},
		"a unit of the machine image only loses its drop-ins": {
			old: withUnits(files(), extensionsv1alpha1.Unit{
				Name: "containerd.service", DropIns: []extensionsv1alpha1.DropIn{dropIn("10.conf", "x")},
			}),
			next: files(),
			want: Changes{Units: []Unit{{Name: "containerd.service", Delete: true, DeleteDropIns: []string{"10.conf"}}}},
		},
		"drop-ins missing from the configuration are removed": {
			old: withUnits(files(), extensionsv1alpha1.Unit{
				Name: "u.service", DropIns: []extensionsv1alpha1.DropIn{dropIn("10.conf", "x"), dropIn("20.conf", "x")},
			}),
			next: withUnits(files(), extensionsv1alpha1.Unit{
				Name: "u.service", DropIns: []extensionsv1alpha1.DropIn{dropIn("20.conf", "x")},
			}),
			want: Changes{Units: []Unit{{Name: "u.service", Write: true, DeleteDropIns: []string{"10.conf"}}}},
		},
		"a changed command affects the unit": {
			old: withUnits(files(), unit("u.service", "c")),
			next: withUnits(files(), func() extensionsv1alpha1.Unit {
				u := unit("u.service", "c")
				u.Command = ptr.To(extensionsv1alpha1.CommandStop)
				return u
			}()),
			want: Changes{Units: []Unit{{Name: "u.service", Write: true}}},
		},
		"files missing on the node are written again": {
			old:      withUnits(files(file("/a", "1"), file("/b", "1")), unit("u.service", "c"), unit("v.service", "c", "/a")),
			next:     withUnits(files(file("/a", "1"), file("/b", "1")), unit("u.service", "c"), unit("v.service", "c", "/a")),
			observed: Observed{Missing: Touched{Files: []string{"/a"}, Units: []string{"u.service"}}},
			want:     Changes{WriteFiles: []string{"/a"}, Units: []Unit{{Name: "u.service", Write: true}, {Name: "v.service"}}},
		},
		"after an interrupted round everything touched counts as changed": {
			old:  withUnits(files(file("/a", "1")), unit("u.service", "c")),
			next: withUnits(files(file("/a", "1")), unit("u.service", "c")),
			unfinished: &Changes{Touched: Touched{
				Files: []string{"/a", "/new"}, Units: []string{"new.service", "u.service"}, UnitFiles: []string{"new.service"},
			}},
			want: Changes{
				WriteFiles: []string{"/a"}, DeleteFiles: []string{"/new"},
				Units: []Unit{{Name: "new.service", Delete: true, DeleteFile: true}, {Name: "u.service", Write: true}},
			},
		},
		"a begun update of the operating system is recorded": {
			old:        &Config{InPlaceUpdates: &extensionsv1alpha1.InPlaceUpdates{OperatingSystemVersion: "1.0.0"}},
			next:       &Config{InPlaceUpdates: &extensionsv1alpha1.InPlaceUpdates{OperatingSystemVersion: "1.1.0"}},
			observed:   Observed{OperatingSystemVersion: "1.0.0"},
			unfinished: &Changes{OSUpdate: &OSUpdate{Version: "1.1.0", BootID: "a"}},
			want:       Changes{InPlace: InPlace{OperatingSystem: true}, OSUpdate: &OSUpdate{Version: "1.1.0", BootID: "a"}},
		},
		"registries are added, changed and removed": {
			old: registries(
				extensionsv1alpha1.RegistryConfig{Upstream: "same"}, extensionsv1alpha1.RegistryConfig{Upstream: "changed"},
				extensionsv1alpha1.RegistryConfig{Upstream: "old"}),
			next: registries(
				extensionsv1alpha1.RegistryConfig{Upstream: "same"}, extensionsv1alpha1.RegistryConfig{Upstream: "new"},
				extensionsv1alpha1.RegistryConfig{Upstream: "changed", Server: ptr.To("x")}),
			want: Changes{WriteRegistries: []string{"changed", "new"}, DeleteRegistries: []string{"old"}},
		},
		"the runtime is changed only with its own settings": {
			old:  registries(),
			next: func() *Config { c := registries(); c.CRI.Containerd.SandboxImage = "pause:2"; return c }(),
			want: Changes{Containerd: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compute(tc.old, tc.next, "sum", tc.observed, tc.unfinished)
			if got.Target != "sum" {
				t.Errorf("target is %q", got.Target)
			}
			checkTouched(t, got)
			got.Target, got.Touched = "", Touched{}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("changes mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

// checkTouched checks that all changes are recorded as touched.
func checkTouched(t *testing.T, c *Changes) {
	t.Helper()
	touched := map[string]bool{}
	for _, list := range [][]string{c.Touched.Files, c.Touched.Units, c.Touched.Registries} {
		for _, name := range list {
			touched[name] = true
		}
	}
	work := append(append(append(append([]string{}, c.WriteFiles...), c.DeleteFiles...), c.WriteRegistries...),
		c.DeleteRegistries...)
	for _, unit := range c.Units {
		work = append(work, unit.Name)
	}
	for _, name := range work {
		if !touched[name] {
			t.Errorf("%s is changed, but not recorded as touched", name)
		}
	}
}

func TestComputeInPlace(t *testing.T) {
	early, late := &metav1.Time{Time: time.Unix(1, 0)}, &metav1.Time{Time: time.Unix(2, 0)}
	base := func(change func(u *extensionsv1alpha1.InPlaceUpdates, kubelet *string)) *Config {
		updates := &extensionsv1alpha1.InPlaceUpdates{
			OperatingSystemVersion: "1.0.0", KubeletVersion: "1.35.4",
			CredentialsRotation: &extensionsv1alpha1.CredentialsRotation{
				CertificateAuthorities: &extensionsv1alpha1.CARotation{LastInitiationTime: early},
			},
		}
		kubelet := "kubeReserved: {cpu: 80m}\nevictionHard: {memory.available: 100Mi}\n"
		if change != nil {
			change(updates, &kubelet)
		}
		return &Config{InPlaceUpdates: updates, Files: []extensionsv1alpha1.File{file(config.KubeletConfigFile, kubelet)}}
	}
	for name, tc := range map[string]struct {
		change func(u *extensionsv1alpha1.InPlaceUpdates, kubelet *string)
		want   InPlace
	}{
		"nothing changed": {nil, InPlace{}},
		"another operating system": {
			func(u *extensionsv1alpha1.InPlaceUpdates, _ *string) { u.OperatingSystemVersion = "1.1.0" },
			InPlace{OperatingSystem: true},
		},
		"another patch version of the kubelet needs no drain": {
			func(u *extensionsv1alpha1.InPlaceUpdates, _ *string) { u.KubeletVersion = "1.35.9" }, InPlace{},
		},
		"another minor version of the kubelet": {
			func(u *extensionsv1alpha1.InPlaceUpdates, _ *string) { u.KubeletVersion = "1.36.0" }, InPlace{KubeletMinor: true},
		},
		"other reservations": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) {
				*k = "kubeReserved: {cpu: 100m}\nevictionHard: {memory.available: 100Mi}\n"
			},
			InPlace{KubeletConfig: true},
		},
		"reservations that move to the system need no drain": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) {
				*k = "kubeReserved: {cpu: 30m}\nsystemReserved: {cpu: 50m}\nevictionHard: {memory.available: 100Mi}\n"
			},
			InPlace{},
		},
		"more reserved for the system": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) {
				*k = "kubeReserved: {cpu: 80m}\nsystemReserved: {memory: 1Mi}\nevictionHard: {memory.available: 100Mi}\n"
			},
			InPlace{KubeletConfig: true},
		},
		"other eviction thresholds": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) {
				*k = "kubeReserved: {cpu: 80m}\nevictionHard: {memory.available: 1Gi}\n"
			},
			InPlace{KubeletConfig: true},
		},
		"settings that do not affect pods need no drain": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) { *k += "maxPods: 50\ncpuManagerPolicy: none\n" }, InPlace{},
		},
		"another CPU manager policy": {
			func(_ *extensionsv1alpha1.InPlaceUpdates, k *string) { *k += "cpuManagerPolicy: static\n" },
			InPlace{CPUManagerPolicy: true},
		},
		"new CAs": {
			func(u *extensionsv1alpha1.InPlaceUpdates, _ *string) {
				u.CredentialsRotation.CertificateAuthorities.LastInitiationTime = late
			}, InPlace{CARotation: true},
		},
		"a new key for service accounts": {
			func(u *extensionsv1alpha1.InPlaceUpdates, _ *string) {
				u.CredentialsRotation.ServiceAccountKey = &extensionsv1alpha1.ServiceAccountKeyRotation{LastInitiationTime: late}
			}, InPlace{KeyRotation: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Compute(base(nil), base(tc.change), "sum", Observed{OperatingSystemVersion: "1.0.0"}, nil).InPlace
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("in-place changes mismatch (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a node's first configuration is not an update", func(t *testing.T) {
		got := Compute(nil, base(nil), "sum", Observed{OperatingSystemVersion: "0.9.0"}, nil).InPlace
		if got.Any() {
			t.Errorf("in-place changes: %+v", got)
		}
	})
}

func TestParse(t *testing.T) {
	const raw = `
spec:
  criConfig: {name: containerd}
  files:
  - {path: /z, content: {inline: {data: all}}}
  - {path: /h, hostName: mine, content: {inline: {data: mine}}}
  - {path: /h, hostName: other, content: {inline: {data: other}}}
  units:
  - {name: kubelet.service, content: base, dropIns: [{name: 10.conf, content: a}], filePaths: [/z]}
status:
  extensionFiles:
  - {path: /a, content: {inline: {data: extension}}}
  extensionUnits:
  - {name: kubelet.service, dropIns: [{name: 10.conf, content: b}, {name: 20.conf, content: c}], filePaths: [/a]}
  - {name: extra.service, content: x}
`
	got, err := Parse([]byte(raw), "mine")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		CRI: &extensionsv1alpha1.CRIConfig{Name: "containerd"},
		Files: []extensionsv1alpha1.File{file("/a", "extension"), func() extensionsv1alpha1.File {
			f := file("/h",
				"mine")
			f.HostName = ptr.To("mine")
			return f
		}(), file("/z", "all")},
		Units: []extensionsv1alpha1.Unit{
			{Name: "extra.service", Content: ptr.To("x")},
			{
				Name: "kubelet.service", Content: ptr.To("base"), FilePaths: []string{"/z", "/a"},
				DropIns: []extensionsv1alpha1.DropIn{dropIn("10.conf", "b"), dropIn("20.conf", "c")},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse mismatch (-want +got):\n%s", diff)
	}
	for name, bad := range map[string]string{
		"no YAML":                   "spec: [",
		"a path twice":              "spec: {files: [{path: /a, content: {inline: {data: x}}}, {path: /a, content: {inline: {data: y}}}]}",
		"a unit outside its folder": "spec: {units: [{name: ../../etc/passwd}]}",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(bad), "mine"); err == nil {
				t.Error("Parse succeeded")
			}
		})
	}
}
