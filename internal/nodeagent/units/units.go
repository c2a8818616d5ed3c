// Package units lets the node agent manage the units of its host: package systemd does so with systemd, package
// machineinit with process 1 of machines of the local cloud. Both pass the suite in package conformance.
package units

import (
	"context"
	"errors"
)

// Manager manages units. Names are the names of unit files. Starting a running unit and stopping a stopped one are no
// errors. Errors contain a next step; the caller adds unit and operation. An operation is carried out even if ctx ends
// early.
type Manager interface {
	// Reload reloads changed unit files.
	Reload(ctx context.Context) error
	// Enable and Disable say whether a unit starts at boot. Both may be repeated; Disable does not need the unit's file.
	Enable(ctx context.Context, name string) error
	Disable(ctx context.Context, name string) error
	// Start and Restart return once the unit has started or has failed to start, Stop once it has ended. Earlier
	// failures of a unit make no difference.
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	// Status fails with ErrNotFound for units that neither have a file nor run.
	Status(ctx context.Context, name string) (Status, error)
}

// ErrNotFound is returned for units without a file.
var ErrNotFound = errors.New("unit not found")

// State is the state of a unit.
type State string

const (
	Inactive     State = "inactive"
	Activating   State = "activating" // Including the wait before an automatic restart.
	Active       State = "active"
	Deactivating State = "deactivating"
	Failed       State = "failed"
)

// Status is a snapshot of a unit.
type Status struct {
	State   State
	Enabled bool
	// PID of the main process; 0 without one.
	PID int
	// Reason says in a few words how a unit has failed; empty if it has not.
	Reason string
}
