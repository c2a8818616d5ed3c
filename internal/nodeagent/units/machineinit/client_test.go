package machineinit

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"hortus.dev/hortus/internal/nodeagent/units/conformance"
	"hortus.dev/hortus/local/machineinit/unit"
)

func TestProcess1Conforms(t *testing.T) {
	dir, socket := t.TempDir(), filepath.Join(t.TempDir(), "socket")
	options := unit.Options{
		Dirs: []string{dir}, LogDir: t.TempDir(), RunDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	}
	supervisor, server := serve(t, options, socket)
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), supervisor.StopAll(context.Background())); err != nil {
			t.Error(err)
		}
	})
	conformance.Run(t, conformance.Host{Units: New(socket), Dir: dir, RestartManager: func(t *testing.T) {
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		supervisor, server = serve(t, options, socket)
		if err := supervisor.StartEnabled(t.Context()); err != nil {
			t.Fatal(err)
		}
	}})
}

// serve runs a supervisor, which finds the running processes of an earlier one.
func serve(t *testing.T, options unit.Options, socket string) (*unit.Supervisor, *http.Server) {
	t.Helper()
	supervisor := unit.NewSupervisor(options)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: supervisor.Handler()}
	go func() { _ = server.Serve(listener) }()
	return supervisor, server
}
