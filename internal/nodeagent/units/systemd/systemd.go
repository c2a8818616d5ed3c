// Package systemd manages the units of hosts that run systemd, over D-Bus.
//
// [Manager] connects with each operation: to systemd's own socket, which needs no bus, or else to the system bus. It
// waits for the signal for the end of a job, or, if systemd re-executes itself in the meantime, for the state of the
// unit.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"hortus.dev/hortus/internal/nodeagent/units"
)

// runtimeDir exists if and only if systemd is process 1; see sd_booted(3).
const runtimeDir = "/run/systemd/system"

// replace makes a job replace others for the same unit, as the jobs of systemctl do.
const replace = "replace"

// Booted reports whether this host runs systemd as process 1.
func Booted() bool {
	info, err := os.Lstat(runtimeDir)
	return err == nil && info.IsDir()
}

// Manager implements units.Manager with systemd. It needs root.
type Manager struct{}

var _ units.Manager = Manager{}

// with calls do with a connection.
func (Manager) with(ctx context.Context, do func(*dbus.Conn) error) error {
	conn, err := dbus.NewSystemdConnectionContext(ctx)
	if err != nil {
		var busErr error
		if conn, busErr = dbus.NewSystemConnectionContext(ctx); busErr != nil {
			return fmt.Errorf("connect to systemd: %w", errors.Join(err, busErr))
		}
	}
	defer conn.Close()
	return do(conn)
}

// Reload implements units.Manager.
func (m Manager) Reload(ctx context.Context) error {
	if err := m.with(ctx, func(conn *dbus.Conn) error { return conn.ReloadContext(ctx) }); err != nil {
		return fmt.Errorf("reload systemd: %w. See \"journalctl _PID=1\"", err)
	}
	return nil
}

// Enable implements units.Manager. A unit without an [Install] section stays unchanged: other units start it.
func (m Manager) Enable(ctx context.Context, name string) error {
	return explain(m.with(ctx, func(conn *dbus.Conn) error {
		_, changes, err := conn.EnableUnitFilesContext(ctx, []string{name}, false, false)
		return reloadIf(ctx, conn, len(changes) > 0, err)
	}), name)
}

// Disable implements units.Manager.
func (m Manager) Disable(ctx context.Context, name string) error {
	err := m.with(ctx, func(conn *dbus.Conn) error {
		changes, err := conn.DisableUnitFilesContext(ctx, []string{name}, false)
		return reloadIf(ctx, conn, len(changes) > 0, err)
	})
	if isNotFound(err) {
		return nil
	}
	return explain(err, name)
}

// reloadIf reloads systemd if links of units were changed.
func reloadIf(ctx context.Context, conn *dbus.Conn, changed bool, err error) error {
	if err != nil || !changed {
		return err
	}
	return conn.ReloadContext(ctx)
}

// Start implements units.Manager.
func (m Manager) Start(ctx context.Context, name string) error {
	return m.start(ctx, name, func(conn *dbus.Conn, result chan<- string) error {
		_, err := conn.StartUnitContext(ctx, name, replace, result)
		return err
	})
}

// Restart implements units.Manager.
func (m Manager) Restart(ctx context.Context, name string) error {
	return m.start(ctx, name, func(conn *dbus.Conn, result chan<- string) error {
		_, err := conn.RestartUnitContext(ctx, name, replace, result)
		return err
	})
}

// Stop implements units.Manager. It also makes systemd forget that the unit has failed: otherwise it would keep units
// whose files are gone.
func (m Manager) Stop(ctx context.Context, name string) error {
	result, err := m.runJob(ctx, func(conn *dbus.Conn, result chan<- string) error {
		_, err := conn.StopUnitContext(ctx, name, replace, result)
		return err
	})
	switch {
	case isNotFound(err):
		return nil
	case errors.Is(err, errDisconnected):
		_, err = m.awaitState(ctx, name)
	case err == nil && result != jobDone && result != jobSkipped:
		return fmt.Errorf("%s. See \"journalctl --unit=%s\"", describeResult(result), name)
	}
	if err != nil {
		return explain(err, name)
	}
	err = m.with(ctx, func(conn *dbus.Conn) error { return conn.ResetFailedUnitContext(ctx, name) })
	if isNotFound(err) { // Systemd last knew the unit as running.
		return nil
	}
	return explain(err, name)
}

// Status implements units.Manager.
func (m Manager) Status(ctx context.Context, name string) (units.Status, error) {
	found, err := m.properties(ctx, name)
	if err != nil {
		return units.Status{}, explain(err, name)
	}
	if !found.exists() {
		return units.Status{}, units.ErrNotFound
	}
	return found.status(), nil
}

// Names of errors of systemd; see org.freedesktop.systemd1(5).
const (
	errorNoSuchUnit   = "org.freedesktop.systemd1.NoSuchUnit"
	errorUnitMasked   = "org.freedesktop.systemd1.UnitMasked"
	errorFileNotFound = "org.freedesktop.DBus.Error.FileNotFound"
)

func errorName(err error) string {
	var dbusError godbus.Error
	if errors.As(err, &dbusError) {
		return dbusError.Name
	}
	return ""
}

func isNotFound(err error) bool {
	name := errorName(err)
	return name == errorNoSuchUnit || name == errorFileNotFound
}

// explain adds the next step for people as a sentence of its own, since systemd's messages are sentences, too.
func explain(err error, name string) error {
	hint := "See \"systemctl status " + name + "\""
	switch {
	case err == nil:
		return nil
	case isNotFound(err):
		return fmt.Errorf("%w: %s", units.ErrNotFound, withoutPeriod(err))
	case errorName(err) == errorUnitMasked:
		hint = "It runs after \"systemctl unmask " + name + "\""
	case errorName(err) == "":
		return err
	}
	return fmt.Errorf("%s. %s", withoutPeriod(err), hint)
}

func withoutPeriod(err error) string { return strings.TrimSuffix(err.Error(), ".") }
