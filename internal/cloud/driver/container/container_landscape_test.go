//go:build landscape && linux

package container_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/hortus/cloud"
	"hortus.dev/hortus/internal/cloud/driver"
	"hortus.dev/hortus/internal/cloud/driver/conformance"
	"hortus.dev/hortus/internal/cloud/driver/container"
	"hortus.dev/hortus/internal/cloud/registry"
	"hortus.dev/hortus/internal/cloud/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func TestConformance(t *testing.T) {
	host := sandboxtest.NewHost(t)
	d, err := container.New(container.Options{
		Address: host.Containerd.Socket, Layout: registry.New(filepath.Join(sandboxtest.Artifacts(t), "images")),
		ImageRepository: "hortus.dev/machine",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	machine := func(t *testing.T, id string) driver.Machine { return testMachine(t, host.StateDir, id) }
	conformance.Run(t, conformance.Subject{Driver: d, Machine: machine, Patience: 30 * time.Second})
	t.Run("a command inside an instance gives its exit code", func(t *testing.T) { execGivesExitCode(t, d, machine(t, "i-exec")) })
	cancel()
	<-ended
}

// testMachine writes what a machine reads at boot.
func testMachine(t *testing.T, stateDir, id string) driver.Machine {
	t.Helper()
	dir := filepath.Join(stateDir, id)
	m := driver.Machine{
		ID: id, Hostname: id, Image: "hortus.dev/machine:1.0.0", CPU: 1, MemoryBytes: 1 << 30,
		ConsolePath: filepath.Join(dir, "console.log"),
		Mounts: []driver.Mount{
			{Source: filepath.Join(dir, "boot"), Target: "/run/hortus-instance", ReadOnly: true},
			{Source: filepath.Join(dir, "lib"), Target: "/var/lib"},
		},
	}
	for _, mount := range m.Mounts {
		if err := os.MkdirAll(mount.Source, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	metadata, err := json.Marshal(cloud.Metadata{ID: id, Name: id, MemoryBytes: m.MemoryBytes, CPU: m.CPU})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"user-data": nil, "ca.crt": nil, "metadata.json": metadata} {
		if err := os.WriteFile(filepath.Join(dir, "boot", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func execGivesExitCode(t *testing.T, d *container.Driver, m driver.Machine) {
	if err := d.Start(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Remove(context.Background(), m.ID); err != nil {
			t.Error(err)
		}
	}()
	code, err := d.Exec(t.Context(), m.ID, []string{"/bin/sh", "-c", "test $(hostname) = " + m.Hostname + " && exit 7"}, false)
	if err != nil || code != 7 {
		t.Errorf("Exec() = %d, %v, want exit code 7", code, err)
	}
}
