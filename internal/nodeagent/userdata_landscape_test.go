//go:build landscape && linux

package nodeagent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/extension/userdata"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/osc"
	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/internal/nodeagent/units/systemd"
	"hortus.dev/hortus/test/systemdhost"
)

// TestUserDataOnAHostWithSystemd boots a machine by script as far as possible without images: the script of the real
// configuration runs with the real systemd; only the program that extracts the node agent from its image is replaced.
func TestUserDataOnAHostWithSystemd(t *testing.T) {
	initRan := "/run/init-ran"
	spec := osc.Provision(osc.Values{
		Type: "some-linux", SecretName: "gardener-node-agent-a-12345", KubernetesVersion: "1.36.3",
		APIServerURL: "https://api.example.org", CABundle: []byte("CA"), HortusImage: "hortus", KubeletImage: "kubelet",
	})
	for i, file := range spec.Files {
		if file.Path == config.InitScript {
			spec.Files[i].Content.Inline.Data = "#!/bin/sh\nuntil touch " + initRan + "; do sleep 0.1; done\n"
		}
	}
	// Containerd belongs to the machine image.
	containerd := filepath.Join(systemdhost.UnitDir, config.ContainerdUnitName)
	if err := os.WriteFile(containerd,
		[]byte("[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	script, err := userdata.Script(&spec, userdata.Options{MaxBytes: 16384, Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(config.BootstrapTokenPlaceholder, "abcdef.0123456789abcdef",
		config.MachineNamePlaceholder, "machine-1").Replace(string(script))
	c := exec.Command("bash")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	for path, want := range map[string]string{
		config.BootstrapTokenFile: "abcdef.0123456789abcdef", config.MachineNameFile: "machine-1",
	} {
		if got, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s has %q, want %q (%v)", path, got, want, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, want mode 0600 (%v)", path, info, err)
		}
	}
	raw, err := os.ReadFile(config.File)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse(raw); err != nil {
		t.Error(err)
	}
	manager := systemd.Manager{}
	for _, name := range []string{config.ContainerdUnitName, config.InitUnitName, config.UnitName} {
		if status, err := manager.Status(t.Context(), name); err != nil || !status.Enabled {
			t.Errorf("%s is %+v, want it enabled (%v)", name, status, err)
		}
	}
	if status, err := manager.Status(t.Context(), config.ContainerdUnitName); err != nil || status.State != units.Active {
		t.Errorf("containerd is %+v (%v)", status, err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(initRan); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the unit that installs the node agent has not run")
		}
	}
}
