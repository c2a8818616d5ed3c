// Package simulated is a driver without processes: instances run because the driver says so. It serves tests without
// root and clouds with thousands of instances.
package simulated

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
)

// changesBuffered lets many instances change phase while the cloud is busy; changes that do not fit are delivered as
// "".
const changesBuffered = 1024

// Options configure a Driver.
type Options struct {
	Clock clock.WithTicker
	// BootDelay is the time from Start to Running.
	BootDelay time.Duration
	// Images are the machine images on offer. Nil means hortus.dev/machine 1.0.0, 1.1.0 and 1.2.0.
	Images []cloud.MachineImage
	// Running are the IDs of instances that an earlier run of the cloud had started; they keep running.
	Running []string
}

// Driver pretends to run instances.
type Driver struct {
	opts    Options
	changes chan string

	mu       sync.Mutex
	machines map[string]*machine
	volumes  map[string]map[string]string // By instance.
}

type machine struct {
	phase    driver.Phase
	exitCode int
	cancel   func() // Stops the boot in progress.
}

// New returns a Driver.
func New(opts Options) *Driver {
	if opts.Images == nil {
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
			opts.Images = append(opts.Images, cloud.MachineImage{
				Name: "hortus.dev/machine:" + version, Version: version, Architecture: runtime.GOARCH,
			})
		}
	}
	d := &Driver{
		opts: opts, changes: make(chan string, changesBuffered), machines: map[string]*machine{},
		volumes: map[string]map[string]string{},
	}
	for _, id := range opts.Running {
		d.machines[id] = &machine{phase: driver.Running, cancel: func() {}}
	}
	return d
}

var _ driver.Driver = (*Driver)(nil)

// Name returns "simulated".
func (d *Driver) Name() string { return "simulated" }

// Images returns the images of the options.
func (d *Driver) Images(context.Context) ([]cloud.MachineImage, error) { return d.opts.Images, nil }

// Observe returns the pretended phase.
func (d *Driver) Observe(_ context.Context, id string) (driver.Observation, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.machines[id]
	if !ok {
		return driver.Observation{Phase: driver.Absent}, nil
	}
	return driver.Observation{Phase: m.phase, ExitCode: m.exitCode}, nil
}

// Start lets the instance run after the boot delay.
func (d *Driver) Start(_ context.Context, in driver.Machine) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.machines[in.ID]; ok && m.phase != driver.Exited {
		return nil
	}
	m := &machine{phase: driver.Starting, cancel: func() {}}
	d.machines[in.ID] = m
	if d.opts.BootDelay <= 0 {
		d.boot(in.ID, m)
		return nil
	}
	stop := make(chan struct{})
	m.cancel = sync.OnceFunc(func() { close(stop) })
	timer := d.opts.Clock.NewTimer(d.opts.BootDelay)
	go func() {
		defer timer.Stop()
		select {
		case <-stop:
		case <-timer.C():
			d.mu.Lock()
			defer d.mu.Unlock()
			d.boot(in.ID, m)
		}
	}()
	return nil
}

// boot makes a starting instance run, unless it was stopped meanwhile. The caller holds the lock.
func (d *Driver) boot(id string, m *machine) {
	if d.machines[id] == m && m.phase == driver.Starting {
		m.phase = driver.Running
		d.notify(id)
	}
}

// Exit ends an instance as if its first process had returned code.
func (d *Driver) Exit(id string, code int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.machines[id]; ok {
		m.cancel()
		m.phase, m.exitCode = driver.Exited, code
		d.notify(id)
	}
}

// Stop ends an instance.
func (d *Driver) Stop(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.machines[id]; ok && m.phase != driver.Exited {
		m.cancel()
		m.phase, m.exitCode = driver.Exited, 137 // As after SIGKILL.
		d.notify(id)
	}
	return nil
}

// Remove forgets an instance.
func (d *Driver) Remove(_ context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, ok := d.machines[id]; ok {
		m.cancel()
		delete(d.machines, id)
		d.notify(id)
	}
	return nil
}

// SetVolumes notes the volumes of an instance.
func (d *Driver) SetVolumes(_ context.Context, id, _ string, volumes map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[id] = maps.Clone(volumes)
	return nil
}

// RemoveVolumes forgets the volumes of an instance.
func (d *Driver) RemoveVolumes(_ context.Context, id, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.volumes, id)
	return nil
}

// Volumes returns the names of the volumes an instance would see, sorted.
func (d *Driver) Volumes(id string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.volumes[id]))
}

// List returns all instances.
func (d *Driver) List(context.Context) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id := range d.machines {
		ids = append(ids, id)
	}
	return ids, nil
}

// notify reports a change without ever blocking. When the buffer is full, its reader either finds a "" in it or
// compares everything at its next resync.
func (d *Driver) notify(id string) {
	select {
	case d.changes <- id:
	default:
		select {
		case d.changes <- "":
		default:
		}
	}
}

// Changes delivers the IDs of changed instances.
func (d *Driver) Changes() <-chan string { return d.changes }

// Run waits for ctx; there is no background work.
func (d *Driver) Run(ctx context.Context) { <-ctx.Done() }
