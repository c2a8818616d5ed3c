//go:build landscape && linux

package container_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/conformance"
	"hortus.dev/hortus/local/clouddaemon/driver/container"
	"hortus.dev/hortus/local/clouddaemon/registry"
	"hortus.dev/hortus/local/clouddaemon/sandboxtest"
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
	t.Run("a command inside an instance gives its exit code",
		func(t *testing.T) { execGivesExitCode(t, d, machine(t, "i-exec")) })
	t.Run("volumes are attached and detached while an instance runs",
		func(t *testing.T) { volumesComeAndGo(t, d, machine(t, "i-volumes")) })
	cancel()
	<-ended
}

// testMachine writes the files that a machine reads at boot.
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
	code, err := d.Exec(t.Context(), m.ID, []string{
		"/bin/sh", "-c", "test $(hostname) = " + m.Hostname + " && exit 7",
	}, false)
	if err != nil || code != 7 {
		t.Errorf("Exec() = %d, %v, want exit code 7", code, err)
	}
}

func volumesComeAndGo(t *testing.T, d *container.Driver, m driver.Machine) {
	ctx := t.Context()
	base := filepath.Dir(m.ConsolePath)
	dir, early, late := filepath.Join(base, "volumes"), filepath.Join(base, "early"), filepath.Join(base, "late")
	for _, source := range []string{early, late} {
		if err := os.Mkdir(source, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, "is"), []byte("there"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := func(volumes map[string]string) {
		t.Helper()
		for range 2 { // The second call changes nothing.
			if err := d.SetVolumes(ctx, m.ID, dir, volumes); err != nil {
				t.Fatal(err)
			}
		}
	}
	inside := func(command string) {
		t.Helper()
		if code, err := d.Exec(ctx, m.ID, []string{"/bin/sh", "-c", command}, false); err != nil || code != 0 {
			t.Errorf("inside the instance, %q ends with %d, %v", command, code, err)
		}
	}
	m.Mounts = append(m.Mounts, driver.Mount{Source: dir, Target: cloud.VolumesDir, ReadOnly: true, Follows: true})
	defer func() {
		if err := errors.Join(d.Remove(context.Background(), m.ID),
			d.RemoveVolumes(context.Background(), m.ID, dir)); err != nil {
			t.Error(err)
		}
	}()
	set(map[string]string{"early": early})
	if err := d.Start(ctx, m); err != nil {
		t.Fatal(err)
	}
	inside("test $(cat /mnt/volumes/early/is) = there")
	inside("test ! -e /mnt/volumes/late")
	set(map[string]string{"early": early, "late": late})
	inside("test $(cat /mnt/volumes/late/is) = there && echo inside > /mnt/volumes/late/from")
	if got, err := os.ReadFile(filepath.Join(late, "from")); err != nil || string(got) != "inside\n" {
		t.Errorf("the content that the instance wrote is %q (%v)", got, err)
	}
	inside("! mkdir /mnt/volumes/own") // The mount points belong to the cloud.
	// A pod has its own mount namespace.
	inside("unshare -m --propagation slave sh -c 'test $(cat /mnt/volumes/late/is) = there'")

	// A volume in use is detached, too.
	inside("cd /mnt/volumes/late && { sleep 1000 < /dev/null > busy 2>&1 & }")
	set(map[string]string{"early": early})
	inside("test ! -e /mnt/volumes/late && test $(cat /mnt/volumes/early/is) = there")

	// After a restart the volumes are attached again.
	if err := d.Stop(ctx, m.ID); err != nil {
		t.Fatal(err)
	}
	set(map[string]string{"late": late})
	if err := d.Start(ctx, m); err != nil {
		t.Fatal(err)
	}
	inside("test ! -e /mnt/volumes/early && test $(cat /mnt/volumes/late/is) = there")

	// The removal of the instance's files must not include those of its volumes.
	for range 2 {
		if err := d.RemoveVolumes(ctx, m.ID, dir); err != nil {
			t.Fatal(err)
		}
	}
	inside("test ! -e /mnt/volumes/late/is")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{early, late} {
		if got, err := os.ReadFile(filepath.Join(source, "is")); err != nil || string(got) != "there" {
			t.Errorf("in the end, volume %s has %q (%v)", source, got, err)
		}
	}
}
