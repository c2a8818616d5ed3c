//go:build landscape && linux

package systemd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/internal/nodeagent/units/conformance"
	"hortus.dev/hortus/test/systemdhost"
)

func TestMain(m *testing.M) { systemdhost.Main(m) }

func TestSystemdConforms(t *testing.T) {
	if !Booted() {
		t.Error("systemd is process 1, but not found")
	}
	conformance.Run(t, conformance.Host{Units: Manager{}, Dir: systemdhost.UnitDir, RestartManager: reexecute})
}

// reexecute makes systemd re-execute itself, as the update of its package does. That closes all connections.
func reexecute(t *testing.T) {
	conn, err := godbus.Dial("unix:path=/run/systemd/private")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal("0")}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(1, unix.SIGTERM); err != nil { // systemd(1) documents the effect of this signal.
		t.Fatal(err)
	}
	select {
	case <-conn.Context().Done():
	case <-time.After(patience):
		t.Fatal("systemd has not re-executed itself")
	}
}

const (
	name     = "example.service"
	patience = 2 * time.Minute
)

// write creates the file of a unit, until the test is over.
func write(t *testing.T, content string) {
	t.Helper()
	path := filepath.Join(systemdhost.UnitDir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Manager{}).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(Manager{}.Stop(context.Background(), name), os.RemoveAll(path)); err != nil {
			t.Error(err)
		}
	})
}

func awaitActivating(t *testing.T) {
	t.Helper()
	var last units.Status
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if last, err = (Manager{}).Status(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if last.State == units.Activating {
			return
		}
	}
	t.Fatalf("the unit is %+v", last)
}

func TestJobsOutliveReexecution(t *testing.T) {
	for result, code := range map[string]string{"a start that succeeds": "0", "a start that fails": "3"} {
		t.Run(result, func(t *testing.T) {
			proceed := filepath.Join(t.TempDir(), "proceed")
			write(t, "[Service]\nType=oneshot\nRemainAfterExit=yes\n"+
				"ExecStart=/bin/sh -c 'until [ -e "+proceed+" ]; do sleep 0.02; done; exit "+code+"'\n")
			started := make(chan error, 1)
			go func() { started <- Manager{}.Start(t.Context(), name) }()
			awaitActivating(t)
			reexecute(t)
			if err := os.WriteFile(proceed, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := <-started; (err == nil) != (code == "0") {
				t.Errorf("Start of a unit with exit code %s: %v", code, err)
			}
		})
	}
}

// TestErrorsSayWhatToLookAt has the errors that operators read in logs and events.
func TestErrorsSayWhatToLookAt(t *testing.T) {
	for problem, tc := range map[string]struct {
		content string
		want    []string
	}{
		"the program fails": {
			content: "[Service]\nType=oneshot\nExecStart=/bin/false\n",
			want:    []string{"job failed: exit-code (exit status 1)", "journalctl --unit=example.service"},
		},
		"the program is killed": {
			content: "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'kill -9 $$$$'\n",
			want:    []string{"job failed: signal (signal 9)", "journalctl --unit=example.service"},
		},
		"the start takes too long": {
			content: "[Service]\nType=oneshot\nTimeoutStartSec=50ms\nExecStart=/bin/sleep 1000\n",
			want:    []string{"timeout", "journalctl --unit=example.service"},
		},
		"the file cannot be read": {
			content: "[Service]\nExecStart=\n",
			want:    []string{"systemctl status example.service"},
		},
		"a required unit does not exist": {
			content: "[Unit]\nRequires=missing.service\n[Service]\nExecStart=/bin/sleep 1000\n",
			want:    []string{"missing.service"},
		},
	} {
		t.Run(problem, func(t *testing.T) {
			write(t, tc.content)
			err := Manager{}.Start(t.Context(), name)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Start: %v, want %q in it", err, want)
				}
			}
		})
	}
}

func TestMaskedUnit(t *testing.T) {
	path := filepath.Join(systemdhost.UnitDir, name)
	if err := os.Symlink("/dev/null", path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := (Manager{}).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "systemctl unmask example.service"
	if err := (Manager{}).Start(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Start: %v, want %q in it", err, want)
	}
	status, err := Manager{}.Status(t.Context(), name)
	if err != nil || status.Enabled || status.Reason != "unit file is masked" {
		t.Errorf("Status: %+v, %v", status, err)
	}
}
