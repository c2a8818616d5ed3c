// Package machineinit manages the units of machines of the local cloud, whose process 1 reads units without being
// systemd.
package machineinit

import (
	"context"
	"errors"
	"fmt"

	"hortus.dev/hortus/internal/nodeagent/units"
	"hortus.dev/hortus/local/machineinit/unit"
)

// Manager implements units.Manager with process 1 of a machine.
type Manager struct{ client *unit.Client }

var _ units.Manager = Manager{}

// New returns a Manager for the control socket at path. It connects with each operation.
func New(path string) Manager { return Manager{client: unit.NewClient(path)} }

// Reload implements units.Manager.
func (m Manager) Reload(ctx context.Context) error { return m.client.Reload(ctx) }

// Enable implements units.Manager.
func (m Manager) Enable(ctx context.Context, name string) error {
	return translate(m.client.Enable(ctx, name))
}

// Disable implements units.Manager.
func (m Manager) Disable(ctx context.Context, name string) error {
	return translate(m.client.Disable(ctx, name))
}

// Start implements units.Manager.
func (m Manager) Start(ctx context.Context, name string) error {
	return translate(m.client.Start(ctx, name))
}

// Stop implements units.Manager.
func (m Manager) Stop(ctx context.Context, name string) error {
	return translate(m.client.Stop(ctx, name))
}

// Restart implements units.Manager.
func (m Manager) Restart(ctx context.Context, name string) error {
	return translate(m.client.Restart(ctx, name))
}

// Status implements units.Manager.
func (m Manager) Status(ctx context.Context, name string) (units.Status, error) {
	found, err := m.client.Status(ctx, name)
	if err != nil {
		return units.Status{}, translate(err)
	}
	status := units.Status{State: units.State(found.State), Enabled: found.Enabled, PID: found.PID}
	switch found.State {
	case unit.AutoRestart:
		status.State, status.Reason = units.Activating, found.Message
	case unit.Failed:
		status.Reason = found.Message
	}
	return status, nil
}

func translate(err error) error {
	if errors.Is(err, unit.ErrNotFound) {
		return fmt.Errorf("%w: %w", units.ErrNotFound, err)
	}
	return err
}
