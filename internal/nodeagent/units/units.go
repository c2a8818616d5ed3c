// Package units lets the node agent manage the units of its node, whatever runs them.
package units

import (
	"context"

	"hortus.dev/hortus/local/machineinit/unit"
)

// Manager manages units. A client of a machine's process 1 (package unit) is one; [Fake] is another for tests. Names
// are those of unit files. Starting what runs and stopping what does not are no errors.
type Manager interface {
	// Reload makes changed unit files known.
	Reload(ctx context.Context) error
	// Enable and Disable say whether a unit starts at boot.
	Enable(ctx context.Context, name string) error
	Disable(ctx context.Context, name string) error
	// Start and Restart return once the unit has started, Stop once it has ended.
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	// Status fails with unit.ErrNotFound for units that do not exist.
	Status(ctx context.Context, name string) (unit.Status, error)
}

var _ Manager = (*unit.Client)(nil)
