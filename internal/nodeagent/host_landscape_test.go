//go:build landscape && linux

package nodeagent

import (
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/hortus/internal/nodeagent/units/systemd"
	"hortus.dev/hortus/test/systemdhost"
)

func TestMain(m *testing.M) { systemdhost.Main(m) }

func TestApplyOnAHostWithSystemd(t *testing.T) {
	if _, ok := hostUnits("/nowhere").(systemd.Manager); !ok {
		t.Error("systemd is not found")
	}
	root := t.TempDir()
	dir := filepath.Join(root, unitDir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(systemdhost.UnitDir, dir); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, Applier: Applier{Root: root, HostName: "node", Units: systemd.Manager{}}}
	h.applyAll()
}
