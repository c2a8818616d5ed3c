package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultTarget is the target to which a unit without an [Install] section is linked when it is enabled.
const DefaultTarget = "multi-user.target"

// Clock is the part of k8s.io/utils/clock that the supervisor needs.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Options configure a Supervisor. Dirs and LogDir are required.
type Options struct {
	// Dirs hold unit files, the first one winning. Links of enabled units are made in the first.
	Dirs []string
	// LogDir gets one <unit>.log per unit.
	LogDir string
	// RunDir, when set, records the main processes of running units, so that the successor of a killed supervisor
	// adopts them instead of starting a second one.
	RunDir string
	// Console, when set, gets all output as well, each line with its unit in front. Units then cannot outlive the
	// supervisor, because their output goes through it.
	Console io.Writer
	// Env is the environment of all units; default PATH alone.
	Env []string
	// Starter defaults to Exec, Clock to the system's clock, Log to slog's default.
	Starter Starter
	Clock   Clock
	Log     *slog.Logger
}

// defaultPath is the search path for unit commands without a slash.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Supervisor keeps units running. All methods may be called concurrently.
type Supervisor struct {
	options Options
	logs    *logs

	mu       sync.Mutex
	services map[string]*service // Units that were started at least once.
	closed   bool
}

// State is the state of a unit, in systemd's terms.
type State string

const (
	Inactive     State = "inactive"
	Activating   State = "activating"
	Active       State = "active"
	Deactivating State = "deactivating"
	AutoRestart  State = "auto-restart" // Waiting to be started again.
	Failed       State = "failed"
)

// Status is a snapshot of a unit.
type Status struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	State       State  `json:"state"`
	Enabled     bool   `json:"enabled"`
	// PID of the main process; 0 without one.
	PID int `json:"pid,omitempty"`
	// Since is when State was entered; the zero time if the unit was never started.
	Since time.Time `json:"since,omitzero"`
	// Restarts counts automatic restarts since the unit was started.
	Restarts int `json:"restarts"`
	// Message is the result of the last run, or the reason why the unit cannot be loaded.
	Message string `json:"message,omitempty"`
}

// NewSupervisor returns a Supervisor that runs nothing yet.
func NewSupervisor(options Options) *Supervisor {
	if options.Starter == nil {
		options.Starter = Exec{}
	}
	if options.Clock == nil {
		options.Clock = systemClock{}
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	if options.Env == nil {
		options.Env = []string{defaultPath}
	}
	return &Supervisor{
		options:  options,
		logs:     &logs{dir: options.LogDir, console: options.Console},
		services: map[string]*service{},
	}
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// ErrClosed is returned for starts after StopAll.
var ErrClosed = errors.New("the supervisor is shutting down")

// Start starts units and those they want, in the order that their After requires, and waits until each is started or
// has failed to. Units that run already stay as they are. Errors of several units are joined.
func (s *Supervisor) Start(ctx context.Context, names ...string) error {
	specs, loadErr := s.loadWithWanted(names)
	begun, err := s.begin(specs)
	if err != nil {
		return err
	}
	errs := []error{loadErr}
	for _, service := range begun {
		select {
		case <-service.started:
			errs = append(errs, service.startErr)
		case <-ctx.Done():
			return errors.Join(append(errs, fmt.Errorf("wait for the start of %s: %w", service.name, ctx.Err()))...)
		}
	}
	return errors.Join(errs...)
}

// loadWithWanted loads the named units and, as far as they can be loaded, the ones these want.
func (s *Supervisor) loadWithWanted(names []string) ([]*Spec, error) {
	var specs []*Spec
	var errs []error
	seen := map[string]bool{}
	required := len(names)
	for queue := slices.Clone(names); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		must := required > 0
		required--
		if seen[name] {
			continue
		}
		seen[name] = true
		spec, err := Load(name, s.options.Dirs)
		if err != nil {
			if must { // A unit in Wants may be a target or may not exist here.
				errs = append(errs, err)
			}
			continue
		}
		specs = append(specs, spec)
		queue = append(queue, spec.Wants...)
	}
	return specs, errors.Join(errs...)
}

// begin launches those of the units that do not run, and returns them together with those still being started.
func (s *Supervisor) begin(specs []*Spec) ([]*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	var fresh []*Spec
	var begun []*service
	for _, spec := range specs {
		if running := s.services[spec.Name]; running != nil && !running.ended() {
			begun = append(begun, running)
			continue
		}
		s.services[spec.Name] = newService(s, spec)
		fresh = append(fresh, spec)
		begun = append(begun, s.services[spec.Name])
	}
	edges := waits(specs)
	for _, spec := range fresh {
		var after []*service
		for _, name := range edges[spec.Name] {
			after = append(after, s.services[name])
		}
		go s.services[spec.Name].run(after)
	}
	return begun, nil
}

// Stop stops units and waits until they have ended. Units that do not run are fine.
func (s *Supervisor) Stop(ctx context.Context, names ...string) error {
	var stopping []*service
	s.mu.Lock()
	for _, name := range names {
		if service := s.services[name]; service != nil {
			service.cancel()
			stopping = append(stopping, service)
		}
	}
	s.mu.Unlock()
	for _, service := range stopping {
		select {
		case <-service.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of %s: %w", service.name, ctx.Err())
		}
	}
	return nil
}

// Restart stops a unit if it runs, and starts it.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	if _, err := Load(name, s.options.Dirs); err != nil {
		return err // A unit that could not be started again is left running.
	}
	if err := s.Stop(ctx, name); err != nil {
		return err
	}
	return s.Start(ctx, name)
}

// StopAll stops everything, units before those they come after, and refuses later starts.
func (s *Supervisor) StopAll(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var specs []*Spec
	for _, service := range s.services {
		if !service.ended() {
			specs = append(specs, service.currentSpec())
		}
	}
	s.mu.Unlock()
	// Walk the start order backwards: units that no remaining unit comes after are stopped next.
	for len(specs) > 0 {
		waitedFor := map[string]bool{}
		for _, names := range waits(specs) {
			for _, name := range names {
				waitedFor[name] = true
			}
		}
		var now []string
		specs = slices.DeleteFunc(specs, func(spec *Spec) bool {
			if waitedFor[spec.Name] {
				return false
			}
			now = append(now, spec.Name)
			return true
		})
		if err := s.Stop(ctx, now...); err != nil {
			return err
		}
	}
	return nil
}

// StartEnabled starts all enabled units.
func (s *Supervisor) StartEnabled(ctx context.Context) error {
	names, err := s.Enabled()
	if err != nil {
		return err
	}
	return s.Start(ctx, names...)
}

// StopAdopted stops the enabled units that an earlier supervisor has left running. It starts nothing that does not run.
func (s *Supervisor) StopAdopted(ctx context.Context) error {
	names, err := s.Enabled()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return (&service{Supervisor: s, name: name}).recorded() == 0
	})
	return errors.Join(s.Start(ctx, names...), s.StopAll(ctx))
}

// Enable makes StartEnabled include a unit, by the links systemd makes.
func (s *Supervisor) Enable(name string) error {
	spec, err := Load(name, s.options.Dirs)
	if err != nil {
		return err
	}
	targets := spec.WantedBy
	if len(targets) == 0 {
		targets = []string{DefaultTarget}
	}
	for _, target := range targets {
		dir := filepath.Join(s.options.Dirs[0], target+".wants")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("enable unit %s: %w", name, err)
		}
		link := filepath.Join(dir, name)
		if err := os.Symlink(filepath.Join("..", name), link); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("enable unit %s: %w", name, err)
		}
	}
	return nil
}

// Disable undoes Enable; a running unit continues to run. A unit that no longer exists can be disabled too.
func (s *Supervisor) Disable(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	links, err := filepath.Glob(filepath.Join(s.options.Dirs[0], "*.wants", name))
	if err != nil {
		return fmt.Errorf("disable unit %s: %w", name, err)
	}
	for _, link := range links {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("disable unit %s: %w", name, err)
		}
	}
	return nil
}

// Enabled returns the names of the units that StartEnabled starts, sorted.
func (s *Supervisor) Enabled() ([]string, error) {
	var names []string
	for _, dir := range s.options.Dirs {
		links, err := filepath.Glob(filepath.Join(dir, "*.wants", "*.service"))
		if err != nil {
			return nil, fmt.Errorf("list enabled units: %w", err)
		}
		for _, link := range links {
			names = append(names, filepath.Base(link))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Reload checks that all unit files can be read. Changes take effect at each unit's next start.
func (s *Supervisor) Reload() error {
	names, err := s.files()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		_, err := Load(name, s.options.Dirs)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (s *Supervisor) files() ([]string, error) {
	var names []string
	for _, dir := range s.options.Dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list units: %w", err)
		}
		for _, entry := range entries {
			if !entry.IsDir() && strings.HasSuffix(entry.Name(), ".service") {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// List returns all units that have a file or run, sorted by name.
func (s *Supervisor) List() ([]Status, error) {
	names, err := s.files()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	for name, service := range s.services {
		if !service.ended() {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	slices.Sort(names)
	var list []Status
	for _, name := range slices.Compact(names) {
		status, err := s.Status(name)
		if err != nil {
			return nil, err
		}
		list = append(list, status)
	}
	return list, nil
}

// Status returns one unit. A unit that neither has a file nor runs is ErrNotFound; one whose file cannot be read has
// the reason in its message.
func (s *Supervisor) Status(name string) (Status, error) {
	enabled, err := s.Enabled()
	if err != nil {
		return Status{}, err
	}
	s.mu.Lock()
	service := s.services[name]
	s.mu.Unlock()
	spec, loadErr := Load(name, s.options.Dirs)
	status := Status{Name: name, State: Inactive, Enabled: slices.Contains(enabled, name)}
	if service != nil {
		status = service.status(status)
	}
	switch {
	case errors.Is(loadErr, ErrNotFound) && (service == nil || service.ended()):
		return Status{}, loadErr
	case loadErr != nil:
		status.Message = loadErr.Error()
	default:
		status.Description = spec.Description
	}
	return status, nil
}
