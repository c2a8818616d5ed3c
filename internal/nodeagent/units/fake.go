package units

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Fake is a Manager whose units run nothing. It knows the units that have a file in Dir.
type Fake struct {
	Dir string
	// Fail, when set, is called before each operation; its result is the operation's error.
	Fail func(operation string) error

	mu      sync.Mutex
	log     []string
	running map[string]bool
	enabled map[string]bool
	starts  int
}

// NewFake returns a Fake for a directory of unit files.
func NewFake(dir string) *Fake {
	return &Fake{Dir: dir, running: map[string]bool{}, enabled: map[string]bool{}}
}

// Log returns the operations so far, like "restart kubelet.service".
func (f *Fake) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.log...)
}

func (f *Fake) do(operation, name string, mustExist bool, act func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(operation + " " + name); err != nil {
			return err
		}
	}
	if mustExist && !f.exists(name) {
		return fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	f.log = append(f.log, operation+" "+name)
	act()
	return nil
}

func (f *Fake) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.Dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Reload implements Manager.
func (f *Fake) Reload(context.Context) error { return f.do("reload", "", false, func() {}) }

// Enable implements Manager.
func (f *Fake) Enable(_ context.Context, name string) error {
	return f.do("enable", name, true, func() { f.enabled[name] = true })
}

// Disable implements Manager.
func (f *Fake) Disable(_ context.Context, name string) error {
	return f.do("disable", name, false, func() { delete(f.enabled, name) })
}

// Start implements Manager.
func (f *Fake) Start(_ context.Context, name string) error {
	return f.do("start", name, true, func() {
		if !f.running[name] {
			f.starts++
		}
		f.running[name] = true
	})
}

// Stop implements Manager.
func (f *Fake) Stop(_ context.Context, name string) error {
	return f.do("stop", name, false, func() { delete(f.running, name) })
}

// Restart implements Manager.
func (f *Fake) Restart(_ context.Context, name string) error {
	return f.do("restart", name, true, func() { f.running[name] = true; f.starts++ })
}

// Status implements Manager. Each start has another process ID.
func (f *Fake) Status(_ context.Context, name string) (Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.exists(name) && !f.running[name] {
		return Status{}, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	status := Status{State: Inactive, Enabled: f.enabled[name]}
	if f.running[name] {
		status.State, status.PID = Active, f.starts
	}
	return status, nil
}
