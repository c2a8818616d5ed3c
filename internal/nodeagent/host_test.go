package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/internal/nodeagent/units/machineinit"
	"hortus.dev/hortus/local/machineinit/unit"
)

const (
	hostUnit = "story.service"
	hostFile = "/etc/story"
)

// host is a node whose units are processes.
type host struct {
	Applier
	t    *testing.T
	spec extensionsv1alpha1.OperatingSystemConfigSpec
}

// apply applies the configuration twice: the second time must change nothing.
func (h *host) apply() error {
	raw, err := yaml.Marshal(extensionsv1alpha1.OperatingSystemConfig{Spec: h.spec})
	if err != nil {
		return err
	}
	for range 2 {
		before := h.pid()
		round, err := h.begin(raw)
		if err != nil {
			return err
		}
		again := len(round.changes.Units) == 0
		if err := round.run(h.t.Context()); err != nil {
			return err
		}
		if err := errors.Join(round.applied(), round.finish()); err != nil {
			return err
		}
		if again && h.pid() != before {
			return errors.New("a configuration that has been applied changes the unit again")
		}
	}
	return nil
}

// pid returns the unit's process, or 0.
func (h *host) pid() int {
	status, err := h.Units.Status(h.t.Context(), hostUnit)
	if err != nil && !errors.Is(err, units.ErrNotFound) {
		h.t.Fatal(err)
	}
	return status.PID
}

// applyAll adds, changes and removes a unit.
func (h *host) applyAll() {
	h.t.Helper()
	h.t.Cleanup(func() { _ = h.Units.Stop(context.Background(), hostUnit) })
	file := extensionsv1alpha1.File{Path: hostFile, Content: extensionsv1alpha1.FileContent{
		Inline: &extensionsv1alpha1.FileContentInline{Data: "1"},
	}}
	content := func(description string) *string {
		return ptr.To(fmt.Sprintf("[Unit]\nDescription=%s\n[Service]\nExecStart=/bin/sleep 1000\n"+
			"[Install]\nWantedBy=multi-user.target\n", description))
	}
	h.spec.Files = []extensionsv1alpha1.File{file}
	h.spec.Units = []extensionsv1alpha1.Unit{{Name: hostUnit, Content: content("one"), FilePaths: []string{hostFile}}}
	u := &h.spec.Units[0]
	for _, step := range []struct {
		what            string
		change          func()
		runs, restarted bool
	}{
		{"a new unit", func() {}, true, true},
		{"another content", func() { u.Content = content("two") }, true, true},
		{"a drop-in", func() {
			u.DropIns = []extensionsv1alpha1.DropIn{{Name: "10.conf", Content: "[Service]\nEnvironment=A=b\n"}}
		}, true, true},
		{"no drop-in", func() { u.DropIns = nil }, true, true},
		{"a file of the unit", func() { h.spec.Files[0].Content.Inline.Data = "2" }, true, true},
		{"another file", func() {
			other := *file.DeepCopy()
			other.Path = "/etc/other"
			h.spec.Files = append(h.spec.Files, other)
		}, true, false},
		{"the unit stopped", func() { u.Command = ptr.To(extensionsv1alpha1.CommandStop) }, false, true},
		{"the unit started", func() { u.Command = ptr.To(extensionsv1alpha1.CommandStart) }, true, true},
		{"the unit disabled", func() { u.Enable, u.Command = ptr.To(false), nil }, false, true},
		{"the unit enabled", func() { u.Enable = nil }, true, true},
		{"no unit", func() { h.spec.Units = nil }, false, true},
	} {
		before := h.pid()
		step.change()
		if err := h.apply(); err != nil {
			h.t.Fatalf("%s: %v", step.what, err)
		}
		if after := h.pid(); (after != 0) != step.runs || (after != before) != step.restarted {
			h.t.Errorf("%s: process %d, before %d; want one: %t, another: %t", step.what, after, before, step.runs,
				step.restarted)
		}
	}
	if status, err := h.Units.Status(h.t.Context(), hostUnit); !errors.Is(err, units.ErrNotFound) {
		h.t.Errorf("a unit that is no longer wanted is %+v, %v", status, err)
	}

	h.spec.Units = []extensionsv1alpha1.Unit{{
		Name:    hostUnit,
		Content: ptr.To("[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"),
	}}
	if err := h.apply(); err == nil || !strings.Contains(err.Error(), "start unit "+hostUnit) {
		h.t.Errorf("a unit that fails: %v", err)
	}
	h.spec.Units[0].Content = content("repaired")
	if err := h.apply(); err != nil || h.pid() == 0 {
		h.t.Errorf("a repaired unit has process %d: %v", h.pid(), err)
	}
}

func TestApplyOnAMachineOfTheLocalCloud(t *testing.T) {
	root, socket := t.TempDir(), filepath.Join(t.TempDir(), "socket")
	dir := filepath.Join(root, unitDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	supervisor := unit.NewSupervisor(unit.Options{
		Dirs: []string{dir}, LogDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
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
	h := &host{t: t, Applier: Applier{Root: root, HostName: "node", Units: machineinit.New(socket)}}
	h.applyAll()
}
