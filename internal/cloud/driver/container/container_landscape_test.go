//go:build landscape && linux

package container_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	conformance.Run(t, conformance.Subject{
		Driver: d,
		Machine: func(t *testing.T, id string) driver.Machine {
			dir := filepath.Join(host.StateDir, id)
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
			for name, content := range map[string]string{"user-data": "", "ca.crt": "", "metadata.json": `{"id":"` + id + `","name":"` + id + `","memoryBytes":1073741824}`} {
				if err := os.WriteFile(filepath.Join(dir, "boot", name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return m
		},
		Patience: 30 * time.Second,
	})
	cancel()
	<-ended
}
