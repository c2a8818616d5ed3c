package containerd

import (
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func cri(plugins ...extensionsv1alpha1.PluginConfig) *extensionsv1alpha1.CRIConfig {
	return &extensionsv1alpha1.CRIConfig{
		Name: "containerd", CgroupDriver: ptr.To(extensionsv1alpha1.CgroupDriverSystemd),
		Containerd: &extensionsv1alpha1.ContainerdConfig{SandboxImage: "pause:1", Plugins: plugins},
	}
}

func values(json string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(json)} }

func TestPatch(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		cri     *extensionsv1alpha1.CRIConfig
		want    string
	}{
		"version 3": {
			"version = 3\nroot = \"/mine\"\n", cri(), `
version = 3
root = "/mine"
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "pause:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
`,
		},
		"version 3 of a containerd that knows one directory of plugins only": {
			"version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".cni]\nbin_dir = \"/x\"\n", &extensionsv1alpha1.CRIConfig{}, `
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dir = "/opt/cni/bin"
`,
		},
		"version 2, with an import of the user's": {
			"version = 2\nimports = [\"/mine.toml\"]\n", cri(), `
version = 2
imports = ["/mine.toml", "/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "pause:1"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
`,
		},
		"additions and removals of extensions come last": {
			"version = 3\n[plugins.old]\na = 1\nb = 2\n",
			cri(
				extensionsv1alpha1.PluginConfig{
					Path: []string{"new", "table"}, Values: values(`{"n": 3, "f": 1.5, "l": [1], "t": {"s": "x"}}`),
				},
				extensionsv1alpha1.PluginConfig{Path: []string{"new", "table"}, Values: values(`{"more": true}`)},
				extensionsv1alpha1.PluginConfig{Path: []string{"scalar"}, Values: values(`"x"`)},
				extensionsv1alpha1.PluginConfig{Path: []string{"empty"}},
				extensionsv1alpha1.PluginConfig{
					Op: ptr.To(extensionsv1alpha1.RemovePluginPathOperation), Path: []string{"old", "a"},
				},
				extensionsv1alpha1.PluginConfig{
					Op: ptr.To(extensionsv1alpha1.RemovePluginPathOperation), Path: []string{"nothing", "there"},
				},
			), `
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins]
scalar = "x"
[plugins.empty]
[plugins.old]
b = 2
[plugins.new.table]
n = 3
f = 1.5
l = [1]
more = true
[plugins.new.table.t]
s = "x"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "pause:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed, err := Patch([]byte(tc.content), tc.cri)
			if err != nil {
				t.Fatal(err)
			}
			if !changed {
				t.Error("no change is reported")
			}
			if diff := cmp.Diff(decode(t, tc.want), decode(t, string(got))); diff != "" {
				t.Errorf("configuration mismatch (-want +got):\n%s", diff)
			}
			again, changed, err := Patch(got, tc.cri)
			if err != nil || changed || string(again) != string(got) {
				t.Errorf("the second call changes it again: %v\n%s", err, cmp.Diff(string(got), string(again)))
			}
		})
	}
}

func decode(t *testing.T, content string) map[string]any {
	t.Helper()
	tree := map[string]any{}
	if _, err := toml.Decode(content, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestPatchFails(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		plugin  extensionsv1alpha1.PluginConfig
	}{
		"broken TOML":           {"version = \n", extensionsv1alpha1.PluginConfig{Path: []string{"a"}}},
		"a version of long ago": {"version = 1\n", extensionsv1alpha1.PluginConfig{Path: []string{"a"}}},
		"broken values": {
			"version = 3\n", extensionsv1alpha1.PluginConfig{Path: []string{"a"}, Values: values("{")},
		},
		"a path through a value": {
			"version = 3\n[plugins]\na = 1\n", extensionsv1alpha1.PluginConfig{Path: []string{"a", "b"}, Values: values("{}")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if out, _, err := Patch([]byte(tc.content), cri(tc.plugin)); err == nil {
				t.Errorf("Patch succeeded:\n%s", out)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	got := Hosts(extensionsv1alpha1.RegistryConfig{
		Upstream: "docker.io", Server: ptr.To("https://registry-1.docker.io"),
		Hosts: []extensionsv1alpha1.RegistryHost{
			{URL: "https://mirror", Capabilities: []extensionsv1alpha1.RegistryCapability{"pull"},
				CACerts: []string{"/a.crt", "/b.crt"}, OverridePath: ptr.To(true)},
			{URL: "http://plain:5000"},
		},
	})
	want := hostsHeader + `server = "https://registry-1.docker.io"

[host."https://mirror"]
  capabilities = ["pull"]
  ca = ["/a.crt", "/b.crt"]
  override_path = true

[host."http://plain:5000"]
  capabilities = ["pull", "resolve"]
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("hosts.toml mismatch (-want +got):\n%s", diff)
	}
	decode(t, string(got))
}
