// Package units lets the node agent manage the units of its host, whatever runs them: package systemd talks to
// systemd, package process1 to process 1 of machines of the local cloud. Both pass the suite in package conformance.
package units

import (
	"context"
	"errors"
)

// Manager manages units. Names are those of unit files. Starting what runs and stopping what does not are no errors.
// Errors say what to look at; unit and operation are added by the caller. An operation that ctx ends early is still
// carried out.
type Manager interface {
	// Reload makes changed unit files known.
	Reload(ctx context.Context) error
	// Enable and Disable say whether a unit starts at boot. Both may be repeated; Disable does not need the unit's file.
	Enable(ctx context.Context, name string) error
	Disable(ctx context.Context, name string) error
	// Start and Restart return once the unit has started or has failed to, Stop once it has ended. How often a unit has
	// failed before makes no difference.
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	// Status fails with ErrNotFound for units that neither have a file nor run.
	Status(ctx context.Context, name string) (Status, error)
}

// ErrNotFound is returned for units without a file.
var ErrNotFound = errors.New("unit not found")

// State is what a unit is doing.
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
