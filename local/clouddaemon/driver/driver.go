// Package driver defines the interface through which the cloud runs its instances.
package driver

import (
	"context"

	"hortus.dev/hortus/local/cloud"
)

// Phase is the phase of an instance as its driver observes it.
type Phase string

const (
	// Absent means that nothing runs; a disk may still be there.
	Absent Phase = "Absent"
	// Starting means that Start was accepted but the instance does not run yet.
	Starting Phase = "Starting"
	// Running means that the instance's first process runs.
	Running Phase = "Running"
	// Exited means that the instance's first process has ended.
	Exited Phase = "Exited"
)

// Observation is a driver's view of one instance.
type Observation struct {
	Phase Phase
	// ExitCode is the exit code of an Exited instance.
	ExitCode int
}

// Mount puts a directory of the host into an instance.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
	// Follows lets the instance see what is mounted below Source later, as SetVolumes does.
	Follows bool
}

// Machine is the description of an instance for a driver.
type Machine struct {
	ID string
	// Hostname is the host name inside.
	Hostname string
	// Image is the full name of the machine image.
	Image string
	// CPU is in cores, MemoryBytes in bytes; both are hard limits.
	CPU         int
	MemoryBytes int64
	// NetNS is the path of the network namespace, empty for drivers without network.
	NetNS string
	// ConsolePath is the absolute path of the file that gets the output of the first process.
	ConsolePath string
	Mounts      []Mount
}

// Driver runs instances. All methods may be called at any time and again after any error; calls for one instance never
// run at the same time.
type Driver interface {
	// Name is the driver's name, as chosen by flag.
	Name() string
	// Images lists the images that instances can boot from.
	Images(ctx context.Context) ([]cloud.MachineImage, error)
	// Observe returns the phase of an instance. A phase that cannot be determined is an error, never Absent.
	Observe(ctx context.Context, id string) (Observation, error)
	// Start boots an instance that is Absent or Exited; the disk of an earlier boot is used again. It does nothing if the
	// instance is Starting or Running.
	Start(ctx context.Context, m Machine) error
	// Stop ends an instance at once and keeps its disk; a missing one is fine.
	Stop(ctx context.Context, id string) error
	// Remove ends an instance and removes all traces of it; a missing one is fine.
	Remove(ctx context.Context, id string) error
	// SetVolumes makes volumes, given as directories of the host by name, appear below dir, a directory of the host
	// that the instance may have mounted with Follows. All other volumes disappear from dir, even if they are in use.
	// The instance may or may not run.
	SetVolumes(ctx context.Context, id, dir string, volumes map[string]string) error
	// RemoveVolumes undoes SetVolumes. If it succeeds, nothing of a volume is left below dir.
	RemoveVolumes(ctx context.Context, id, dir string) error
	// List returns the IDs of all instances of which the driver keeps traces.
	List(ctx context.Context) ([]string, error)
	// Changes delivers IDs of instances whose phase may have changed, and "" when the phase of any instance may have
	// changed. It is never closed.
	Changes() <-chan string
	// Run does the driver's background work until ctx ends.
	Run(ctx context.Context)
}
