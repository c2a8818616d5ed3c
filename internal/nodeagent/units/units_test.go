package units

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"hortus.dev/hortus/local/machineinit/unit"
)

// TestConformance holds every Manager to what the node agent relies on.
func TestConformance(t *testing.T) {
	for name, newManager := range map[string]func(t *testing.T, dir string) Manager{
		"fake":      func(_ *testing.T, dir string) Manager { return NewFake(dir) },
		"process 1": newProcess1,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			conformance(t, newManager(t, dir), dir)
		})
	}
}

// newProcess1 returns a client of the supervisor that machines run as process 1.
func newProcess1(t *testing.T, dir string) Manager {
	supervisor := unit.NewSupervisor(unit.Options{
		Dirs: []string{dir}, LogDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: supervisor.Handler()}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), supervisor.StopAll(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return unit.NewClient(socket)
}

func conformance(t *testing.T, m Manager, dir string) {
	const name = "a.service"
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	status := func() unit.Status {
		t.Helper()
		s, err := m.Status(ctx, name)
		must(err)
		return s
	}

	if _, err := m.Status(ctx, name); !errors.Is(err, unit.ErrNotFound) {
		t.Errorf("Status of a unit without a file: %v, want ErrNotFound", err)
	}
	for operation, do := range map[string]func(context.Context, string) error{
		"start": m.Start, "restart": m.Restart, "enable": m.Enable,
	} {
		if err := do(ctx, name); !errors.Is(err, unit.ErrNotFound) {
			t.Errorf("%s of a unit without a file: %v, want ErrNotFound", operation, err)
		}
	}
	must(m.Stop(ctx, name)) // A unit that does not run need not exist.
	must(m.Disable(ctx, name))

	must(os.WriteFile(filepath.Join(dir, name),
		[]byte("[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"), 0o644))
	must(m.Reload(ctx))
	if s := status(); s.State != unit.Inactive || s.Enabled {
		t.Errorf("a new unit is %+v", s)
	}
	must(m.Enable(ctx, name))
	must(m.Enable(ctx, name))
	if s := status(); !s.Enabled || s.State != unit.Inactive {
		t.Errorf("an enabled unit is %+v; to enable is not to start", s)
	}
	must(m.Start(ctx, name))
	first := status()
	if first.State != unit.Active || first.PID == 0 {
		t.Errorf("a started unit is %+v", first)
	}
	must(m.Start(ctx, name))
	if s := status(); s.PID != first.PID {
		t.Error("a unit that runs was started again")
	}
	must(m.Restart(ctx, name))
	if s := status(); s.State != unit.Active || s.PID == first.PID {
		t.Errorf("after a restart the unit is %+v, before %+v", s, first)
	}
	must(m.Disable(ctx, name))
	if s := status(); s.Enabled || s.State != unit.Active {
		t.Errorf("a disabled unit is %+v; to disable is not to stop", s)
	}
	must(m.Stop(ctx, name))
	if s := status(); s.State != unit.Inactive || s.PID != 0 {
		t.Errorf("a stopped unit is %+v", s)
	}
	must(m.Restart(ctx, name)) // A restart starts what does not run.
	if s := status(); s.State != unit.Active {
		t.Errorf("after a restart the unit is %+v", s)
	}
}
