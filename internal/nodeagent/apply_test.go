package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/units"
)

// fakeImages has images whose files contain their own names.
type fakeImages struct {
	fail func(operation string) error
	log  []string
}

func (f *fakeImages) Extract(_ context.Context, image, pathInImage, target string, mode fs.FileMode) (bool, error) {
	if f.fail != nil {
		if err := f.fail("extract " + image); err != nil {
			return false, err
		}
	}
	f.log = append(f.log, image)
	return writeFile(target, []byte(image+pathInImage), mode)
}

// testNode is the disk and the units of a node.
type testNode struct {
	root   string
	units  *units.Fake
	images *fakeImages
}

func newNode(t *testing.T) *testNode {
	t.Helper()
	n := &testNode{root: t.TempDir(), images: &fakeImages{}}
	dir := filepath.Join(n.root, unitDir)
	n.units = units.NewFake(dir)
	n.write(t, filepath.Join(unitDir, config.ContainerdUnitName), "[Service]\nExecStart=containerd\n")
	n.write(t, config.ContainerdConfigFile, "version = 3\n")
	n.write(t, "/etc/os-release", "PRETTY_NAME=\"Hortus Machine 1.0.0\"\n")
	n.write(t, bootIDFile, "boot-1\n")
	return n
}

func (n *testNode) write(t *testing.T, path, content string) {
	t.Helper()
	if _, err := writeFile(filepath.Join(n.root, path), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *testNode) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(n.root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "(missing)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (n *testNode) applier() *Applier {
	return &Applier{Root: n.root, HostName: "node", Units: n.units, Images: n.images}
}

// apply does what the Reconciler does on a node that does not have to be drained.
func (n *testNode) apply(raw []byte) error {
	round, err := n.applier().begin(raw)
	if err != nil {
		return err
	}
	if err := round.run(context.Background()); err != nil {
		return err
	}
	if err := round.applied(); err != nil {
		return err
	}
	return round.finish()
}

// applyThrough applies like a node agent whose unit is restarted whenever it ends.
func (n *testNode) applyThrough(t *testing.T, raw []byte) {
	t.Helper()
	for range 3 {
		err := n.apply(raw)
		if err == nil {
			return
		}
		if !errors.Is(err, ErrRestarting) {
			t.Fatal(err)
		}
	}
	t.Fatal("the node agent restarts itself endlessly")
}

func rawOSC(t *testing.T, change func(*extensionsv1alpha1.OperatingSystemConfigSpec)) []byte {
	t.Helper()
	file := func(path, data string) extensionsv1alpha1.File {
		return extensionsv1alpha1.File{
			Path: path, Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: data}},
		}
	}
	image := func(path, name string) extensionsv1alpha1.File {
		return extensionsv1alpha1.File{Path: path, Permissions: ptr.To[uint32](0o755),
			Content: extensionsv1alpha1.FileContent{
				ImageRef: &extensionsv1alpha1.FileContentImageRef{Image: name, FilePathInImage: "/bin/x"},
			}}
	}
	spec := extensionsv1alpha1.OperatingSystemConfigSpec{
		CRIConfig: &extensionsv1alpha1.CRIConfig{Name: "containerd", Containerd: &extensionsv1alpha1.ContainerdConfig{
			SandboxImage: "pause:1", Registries: []extensionsv1alpha1.RegistryConfig{
				{Upstream: "docker.io", Hosts: []extensionsv1alpha1.RegistryHost{{URL: "http://mirror"}}},
			},
		}},
		Files: []extensionsv1alpha1.File{
			file(config.KubeletConfigFile, "maxPods: 1\n"), file("/etc/other", "1"),
			image(config.KubeletBinary, "kubelet:1"), image(config.Binary, "hortus:1"),
		},
		Units: []extensionsv1alpha1.Unit{
			{Name: config.ContainerdUnitName, DropIns: []extensionsv1alpha1.DropIn{{Name: "10.conf", Content: "[Service]\n"}}},
			{Name: config.KubeletUnitName, Content: ptr.To("[Service]\nExecStart=kubelet\n"),
				FilePaths: []string{config.KubeletBinary, config.KubeletConfigFile}},
			{Name: config.UnitName, Content: ptr.To("[Service]\nExecStart=agent\n"), FilePaths: []string{config.Binary}},
			{Name: "off.service", Content: ptr.To("[Service]\nExecStart=off\n"), Enable: ptr.To(false),
				Command: ptr.To(extensionsv1alpha1.CommandStop)},
		},
	}
	if change != nil {
		change(&spec)
	}
	raw, err := yaml.Marshal(extensionsv1alpha1.OperatingSystemConfig{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func setFile(spec *extensionsv1alpha1.OperatingSystemConfigSpec, path, data string) {
	for i := range spec.Files {
		if spec.Files[i].Path == path {
			spec.Files[i].Content.Inline.Data = data
		}
	}
}

func setImage(spec *extensionsv1alpha1.OperatingSystemConfigSpec, path, image string) {
	for i := range spec.Files {
		if spec.Files[i].Path == path {
			spec.Files[i].Content.ImageRef.Image = image
		}
	}
}

// actions are the operations of a round that affect running units.
func actions(log []string) []string {
	var out []string
	for _, operation := range log {
		if strings.HasPrefix(operation, "restart ") || strings.HasPrefix(operation, "stop ") {
			out = append(out, operation)
		}
	}
	return out
}

func TestApplyFirst(t *testing.T) {
	n := newNode(t)
	err := n.apply(rawOSC(t, nil))
	if !errors.Is(err, ErrRestarting) {
		t.Fatalf("the node agent's own program is new, but it does not restart: %v", err)
	}
	if err := n.apply(rawOSC(t, nil)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, path := range []string{
		config.KubeletConfigFile, "/etc/other", config.KubeletBinary, unitDir + "/kubelet.service", unitDir +
			"/containerd.service.d/10.conf", changesFile,
	} {
		got[path] = n.read(t, path)
	}
	want := map[string]string{
		config.KubeletConfigFile: "maxPods: 1\n", "/etc/other": "1", config.KubeletBinary: "kubelet:1/bin/x",
		unitDir + "/kubelet.service": "[Service]\nExecStart=kubelet\n", unitDir +
			"/containerd.service.d/10.conf": "[Service]\n",
		changesFile: "(missing)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files mismatch (-want +got):\n%s", diff)
	}
	if hosts := n.read(t, "/etc/containerd/certs.d/docker.io/hosts.toml"); !strings.Contains(hosts, "http://mirror") {
		t.Errorf("hosts.toml: %s", hosts)
	}
	wantActions := []string{
		"restart containerd.service", "restart containerd.service", "restart kubelet.service", "stop off.service",
		"restart gardener-node-agent.service",
	}
	if diff := cmp.Diff(wantActions, actions(n.units.Log())); diff != "" {
		t.Errorf("actions mismatch (-want +got):\n%s", diff)
	}
}

func TestApplyChange(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*extensionsv1alpha1.OperatingSystemConfigSpec)
		want   []string // Actions.
		check  func(t *testing.T, n *testNode)
	}{
		"an unchanged configuration has no effect": {},
		"a new patch version of the kubelet restarts only the kubelet": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { setImage(s, config.KubeletBinary, "kubelet:2") },
			want:   []string{"restart kubelet.service"},
		},
		"a new configuration of the kubelet restarts only the kubelet": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
				setFile(s, config.KubeletConfigFile, "maxPods: 2\n")
			},
			want: []string{"restart kubelet.service"},
		},
		"a file that no unit uses restarts nothing": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { setFile(s, "/etc/other", "2") },
			check: func(t *testing.T, n *testNode) {
				if got := n.read(t, "/etc/other"); got != "2" {
					t.Errorf("/etc/other is %q", got)
				}
			},
		},
		"a new node agent comes last": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
				setImage(s, config.Binary, "hortus:2")
				setImage(s, config.KubeletBinary, "kubelet:2")
			},
			want: []string{"restart kubelet.service", "restart gardener-node-agent.service"},
		},
		"parts removed from the configuration are removed from the node": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
				s.Files = append(s.Files[:1], s.Files[2:]...) // Without /etc/other.
				s.Units = s.Units[1:]                         // Without the drop-in of containerd.
				s.Units = s.Units[:2]                         // Without off.service.
				s.CRIConfig.Containerd.Registries = nil
			},
			want: []string{"restart containerd.service", "stop off.service"},
			check: func(t *testing.T, n *testNode) {
				for _, path := range []string{
					"/etc/other", unitDir + "/off.service", unitDir + "/containerd.service.d/10.conf",
					"/etc/containerd/certs.d/docker.io/hosts.toml",
				} {
					if got := n.read(t, path); got != "(missing)" {
						t.Errorf("%s is still there: %q", path, got)
					}
				}
				if got := n.read(t, unitDir+"/containerd.service"); got == "(missing)" {
					t.Error("the unit of the machine image is gone")
				}
			},
		},
		"another sandbox image restarts containerd": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { s.CRIConfig.Containerd.SandboxImage = "pause:2" },
			want:   []string{"restart containerd.service"},
		},
		"a unit can be disabled": {
			change: func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { s.Units[1].Enable = ptr.To(false) },
			want:   []string{"stop kubelet.service"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.applyThrough(t, rawOSC(t, nil))
			before := len(n.units.Log())
			n.applyThrough(t, rawOSC(t, tc.change))
			if diff := cmp.Diff(tc.want, actions(n.units.Log()[before:])); diff != "" {
				t.Errorf("actions mismatch (-want +got):\n%s", diff)
			}
			if tc.check != nil {
				tc.check(t, n)
			}
		})
	}
}

func TestApplyRestoresWhatANewRootDiskLacks(t *testing.T) {
	n := newNode(t)
	n.applyThrough(t, rawOSC(t, nil))
	for _, lost := range []string{"/opt", unitDir + "/kubelet.service", "/etc/containerd/certs.d"} {
		if err := os.RemoveAll(filepath.Join(n.root, lost)); err != nil {
			t.Fatal(err)
		}
	}
	n.applyThrough(t, rawOSC(t, nil))
	for _, path := range []string{
		config.KubeletBinary, unitDir + "/kubelet.service", "/etc/containerd/certs.d/docker.io/hosts.toml",
	} {
		if n.read(t, path) == "(missing)" {
			t.Errorf("%s was not restored", path)
		}
	}
}

var errStop = errors.New("the process is killed here")

// stopAt makes the nth operation on units and images fail, and all later ones.
func (n *testNode) stopAt(limit int) {
	count := 0
	fail := func(string) error {
		if count++; count > limit {
			return errStop
		}
		return nil
	}
	n.units.Fail, n.images.fail = fail, fail
}

func (n *testNode) heal() { n.units.Fail, n.images.fail = nil, nil }

// TestApplySurvivesStops stops the process at each operation. Whatever follows, the final state of the node is the same
// as without a stop, and the kubelet has been restarted after its program was replaced.
func TestApplySurvivesStops(t *testing.T) {
	update := func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		setImage(s, config.KubeletBinary, "kubelet:2")
		setFile(s, "/etc/other", "2")
		setFile(s, config.KubeletConfigFile, "cpuManagerPolicy: static\n")
		s.CRIConfig.Containerd.SandboxImage = "pause:2"
		s.Units = append(s.Units, extensionsv1alpha1.Unit{Name: "new.service", Content: ptr.To("[Service]\nExecStart=new\n")})
		s.Files = append(s.Files, extensionsv1alpha1.File{
			Path: "/etc/new", Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: "x"}},
		})
	}
	for next, change := range map[string]func(*extensionsv1alpha1.OperatingSystemConfigSpec){"continues": update,
		"goes back": nil} {
		for limit := range 13 {
			t.Run(fmt.Sprintf("stopped after %d operations, then the update %s", limit, next), func(t *testing.T) {
				n := newNode(t)
				n.applyThrough(t, rawOSC(t, nil))
				n.write(t, cpuManagerState, `{"policyName":"none"}`)
				n.stopAt(limit)
				interrupted := n.apply(rawOSC(t, update))
				n.heal()
				before := len(n.units.Log())
				n.applyThrough(t, rawOSC(t, change))

				wanted := newNode(t)
				wanted.applyThrough(t, rawOSC(t, change))
				for _, path := range []string{
					config.KubeletBinary, "/etc/other", "/etc/new", unitDir + "/new.service", unitDir + "/kubelet.service",
					config.ContainerdConfigFile, changesFile,
				} {
					if diff := cmp.Diff(wanted.read(t, path), n.read(t, path)); diff != "" {
						t.Errorf("%s mismatch (-want +got):\n%s", path, diff)
					}
				}
				if state := n.read(t, cpuManagerState); change != nil && state != "(missing)" {
					t.Errorf("the kubelet starts with the state %s", state)
				}
				if change == nil && errors.Is(interrupted, errStop) {
					return // Whether the kubelet has to be restarted depends on the progress of the first round.
				}
				all := strings.Join(n.units.Log(), ",")
				if !strings.Contains(all[strings.Index(all, "restart gardener-node-agent"):], "restart kubelet.service") {
					t.Errorf("the kubelet still runs its old program; operations since the stop: %q", n.units.Log()[before:])
				}
			})
		}
	}
}

func TestWhatHasToBeRestartedIsRemembered(t *testing.T) {
	n := newNode(t)
	n.applyThrough(t, rawOSC(t, nil))
	update := rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		setFile(s, config.KubeletConfigFile, "maxPods: 2\n")
	})
	n.units.Fail = func(operation string) error {
		if operation == "restart kubelet.service" {
			return errStop
		}
		return nil
	}
	if err := n.apply(update); !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	n.heal()
	before := len(n.units.Log())
	if err := n.apply(update); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"restart kubelet.service"}, actions(n.units.Log()[before:])); diff != "" {
		t.Errorf("actions mismatch (-want +got):\n%s", diff)
	}
}

// The kubelet does not start with the state of another policy of its CPU manager. Pools whose machines are not replaced
// for another policy get it while the kubelet runs, which would write its state again.
func TestApplyAnotherCPUManagerPolicy(t *testing.T) {
	state := func(policy string) string {
		return `{"policyName":"` + policy + `","defaultCpuSet":"","checksum":1353318690}`
	}
	const stop, restart = "stop kubelet.service", "restart kubelet.service"
	for name, tc := range map[string]struct {
		state, config string // Of the kubelet; no state if it is empty.
		want          string // The state that the kubelet starts with.
		actions       []string
	}{
		"from none to static": {state("none"), "cpuManagerPolicy: static\n", "(missing)", []string{stop, restart}},
		"from static to none, which is the default": {
			state("static"), "maxPods: 2\n", "(missing)", []string{stop, restart},
		},
		"the same policy":              {state("static"), "cpuManagerPolicy: static\n", state("static"), []string{restart}},
		"none, by default":             {state("none"), "maxPods: 2\n", state("none"), []string{restart}},
		"no state":                     {"", "cpuManagerPolicy: static\n", "(missing)", []string{restart}},
		"a state that cannot be read":  {"{", "maxPods: 2\n", "(missing)", []string{stop, restart}},
		"the kubelet does not restart": {state("static"), "maxPods: 1\n", state("static"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.applyThrough(t, rawOSC(t, nil))
			if tc.state != "" {
				n.write(t, cpuManagerState, tc.state)
			}
			before := len(n.units.Log())
			var started string
			n.units.Fail = func(operation string) error {
				if operation == restart {
					started = n.read(t, cpuManagerState)
				}
				return nil
			}
			n.applyThrough(t, rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
				setFile(s, config.KubeletConfigFile, tc.config)
			}))
			if tc.actions == nil {
				started = n.read(t, cpuManagerState)
			}
			if started != tc.want {
				t.Errorf("the kubelet starts with the state %s, want %s", started, tc.want)
			}
			if diff := cmp.Diff(tc.actions, actions(n.units.Log()[before:])); diff != "" {
				t.Errorf("actions mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyRefusesSecretReferences(t *testing.T) {
	n := newNode(t)
	err := n.apply(rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		s.Files[1].Content = extensionsv1alpha1.FileContent{SecretRef: &extensionsv1alpha1.FileContentSecretRef{
			Name: "x", DataKey: "y",
		}}
	}))
	if err == nil || !strings.Contains(err.Error(), "apply file /etc/other") {
		t.Errorf("apply: %v", err)
	}
}

func TestInstalledOS(t *testing.T) {
	n := newNode(t)
	for content, want := range map[string]string{
		"NAME=x\nPRETTY_NAME=\"Hortus Machine 1.0.0\"\n":     "1.0.0",
		"PRETTY_NAME=\"Garden Linux 1592.9.0-dev (x)\"\nA=1": "1592.9.0-dev",
		"PRETTY_NAME=Plain 15.5\n":                           "15.5",
	} {
		n.write(t, "/etc/os-release", content)
		if got, err := installedOS(n.root); err != nil || got != want {
			t.Errorf("installedOS of %q = %q, %v; want %q", content, got, err, want)
		}
	}
	n.write(t, "/etc/os-release", "PRETTY_NAME=Rolling\n")
	if got, err := installedOS(n.root); err == nil {
		t.Errorf("installedOS without a version = %q", got)
	}
}

// TestUnitsAreReloadedForTheirFilesAlone: systemd has to reload all its files only if files of units have changed.
func TestUnitsAreReloadedForTheirFilesAlone(t *testing.T) {
	n := newNode(t)
	n.applyThrough(t, rawOSC(t, nil))
	reloads := func(change func(*extensionsv1alpha1.OperatingSystemConfigSpec)) int {
		before := len(n.units.Log())
		n.applyThrough(t, rawOSC(t, change))
		count := 0
		for _, operation := range n.units.Log()[before:] {
			if strings.HasPrefix(operation, "reload") {
				count++
			}
		}
		return count
	}
	if got := reloads(func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		s.Files[0].Content.Inline.Data = "maxPods: 2\n"
	}); got != 0 {
		t.Errorf("%d reloads for a file that a unit reads", got)
	}
	if got := reloads(func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		s.Files[0].Content.Inline.Data = "maxPods: 2\n"
		s.Units[1].DropIns = []extensionsv1alpha1.DropIn{{Name: "10.conf", Content: "[Service]\n"}}
	}); got != 1 {
		t.Errorf("%d reloads for a drop-in", got)
	}
}
