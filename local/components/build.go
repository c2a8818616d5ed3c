package components

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// heartbeat is the interval of the progress messages of a running build. A cold Kubernetes build takes 5 to 10
	// minutes on two cores.
	heartbeat = 30 * time.Second
	// stopGrace is how long the compiler may take to clean up after an interrupt, before it is killed.
	stopGrace = 10 * time.Second
)

// Builder builds components. The zero value is not usable: Source and Artifacts have to be set.
type Builder struct {
	Source    string // Folder with the source folders of the components.
	Artifacts string // Folder of the built programs, below bin.
	// Progress receives one line per event; nil means silence.
	Progress io.Writer
	// Force builds even what is up to date.
	Force bool
}

// Status is the build status of one component.
type Status struct {
	Component Component
	State     State
	BuiltAt   time.Time // Zero when never built.
	Seconds   float64   // How long the last build took.
	Bytes     int64     // Sum of the program sizes.
}

// Status returns the state of the given components.
func (b *Builder) Status(ctx context.Context, selected []Component) ([]Status, error) {
	var all []Status
	for _, c := range selected {
		inputs, err := b.inputs(ctx, c)
		if err != nil {
			return nil, err
		}
		state, s, err := readState(c.Dir(b.Artifacts), inputs)
		if err != nil {
			return nil, fmt.Errorf("read stamp of %s: %w", c, err)
		}
		status := Status{Component: c, State: state}
		if s != nil {
			status.BuiltAt, status.Seconds = s.BuiltAt, s.Seconds
			for _, size := range s.Sizes {
				status.Bytes += size
			}
		}
		all = append(all, status)
	}
	return all, nil
}

// Ensure builds the named components (see [Select]) unless they are up to date.
func (b *Builder) Ensure(ctx context.Context, names ...string) error {
	selected, err := Select(All(), names...)
	if err != nil {
		return err
	}
	return b.Build(ctx, selected)
}

// Build builds the components that are not up to date, one after the other: each alone keeps all cores busy, and
// together they would compile the libraries they share several times.
func (b *Builder) Build(ctx context.Context, selected []Component) error {
	statuses, err := b.Status(ctx, selected)
	if err != nil {
		return err
	}
	var outdated []Component
	var needs []DebianPackage
	for _, s := range statuses {
		if b.Force || s.State != Built {
			outdated = append(outdated, s.Component)
			needs = append(needs, s.Component.Needs...)
		}
	}
	// Before the first build: a missing package should not show up after ten minutes.
	if err := EnsurePackages(ctx, b.progress(), needs...); err != nil {
		return err
	}
	for i, c := range outdated {
		if err := b.buildLocked(ctx, c, fmt.Sprintf("[%d/%d] ", i+1, len(outdated))); err != nil {
			return err
		}
	}
	return nil
}

// buildLocked lets only one process build a component at a time; a process that waited finds the work done.
func (b *Builder) buildLocked(ctx context.Context, c Component, prefix string) error {
	if err := os.MkdirAll(c.Dir(b.Artifacts), 0o755); err != nil {
		return fmt.Errorf("create folder of %s: %w", c, err)
	}
	unlock, err := lock(ctx, filepath.Join(c.Dir(b.Artifacts), ".lock"))
	if err != nil {
		return fmt.Errorf("lock %s: %w", c, err)
	}
	defer unlock()

	inputs, err := b.inputs(ctx, c)
	if err != nil {
		return err
	}
	if state, _, err := readState(c.Dir(b.Artifacts), inputs); err == nil && state == Built && !b.Force {
		return nil
	}
	fmt.Fprintf(b.progress(), "%s%s: building\n", prefix, c)
	start := time.Now()
	stopHeartbeat := b.startHeartbeat(prefix+c.String(), start)
	s, err := b.build(ctx, c)
	stopHeartbeat()
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("build %s: %w", c, context.Cause(ctx))
		}
		return fmt.Errorf("build %s: %w", c, err)
	}
	s.Inputs, s.BuiltAt, s.Seconds = inputs, start.UTC().Truncate(time.Second),
		time.Since(start).Round(time.Second/10).Seconds()
	if err := writeStamp(c.Dir(b.Artifacts), s); err != nil {
		return fmt.Errorf("write stamp of %s: %w", c, err)
	}
	var bytes int64
	for _, size := range s.Sizes {
		bytes += size
	}
	fmt.Fprintf(b.progress(), "%s%s: built in %s, %d MB\n", prefix, c, elapsed(start), bytes/1e6)
	return nil
}

// build compiles into a scratch folder and moves the programs into place only when all are complete. The scratch folder
// is inside the component's folder, under the same lock, so the leftovers of a killed build can be removed safely.
func (b *Builder) build(ctx context.Context, c Component) (*stamp, error) {
	dir := c.Dir(b.Artifacts)
	scratch, err := filepath.Abs(filepath.Join(dir, ".scratch"))
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	for _, p := range c.Programs {
		if err := b.compile(ctx, c, p, filepath.Join(scratch, p.Name)); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(filepath.Join(dir, stampFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // From here on the folder is a mixture, until the new stamp is written.
	}
	s := &stamp{Sizes: map[string]int64{}}
	for _, p := range c.Programs {
		info, err := os.Stat(filepath.Join(scratch, p.Name))
		if err != nil {
			return nil, err
		}
		s.Sizes[p.Name] = info.Size()
		if err := os.Rename(filepath.Join(scratch, p.Name), filepath.Join(dir, p.Name)); err != nil {
			return nil, err
		}
		for _, link := range p.Links {
			if err := replaceSymlink(p.Name, filepath.Join(dir, link)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func replaceSymlink(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}

func (b *Builder) compile(ctx context.Context, c Component, p Program, output string) error {
	var name string
	var args []string
	switch c.Language {
	case C:
		name = "gcc"
		args = []string{"-Os", "-Wall", "-static", "-s", "-DVERSION=" + `"` + c.Version[1:] + `"`, "-o", output, p.Source}
	default:
		name = "go"
		args = append(append([]string{"build"}, c.goArguments()...), "-o", output, p.Source)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(b.Source, c.Folder)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED="+map[bool]string{false: "0", true: "1"}[c.CGO])
	// On an interrupt the go command stops its compilers and removes its files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", p.Name, err, tail(messages.String(), errorLines))
	}
	return nil
}

// GoTags are the build tags of every Go program. grpcnotrace leaves out gRPC's request tracing, whose templates keep
// the linker from dropping unused methods.
const GoTags = "grpcnotrace"

// goArguments are the same for all components and for the project's own binary where they decide about cache hits:
// -trimpath and the tags that shared libraries look at.
func (c Component) goArguments() []string {
	return []string{
		"-trimpath", "-buildvcs=false",
		"-tags=" + strings.Join(append([]string{GoTags}, c.Tags...), ","),
		"-ldflags=" + strings.Join(append([]string{"-s", "-w"}, c.LDFlags...), " "),
	}
}

// inputs returns a hash of everything that determines the programs of the component.
func (b *Builder) inputs(ctx context.Context, c Component) (string, error) {
	folder := filepath.Join(b.Source, c.Folder)
	with := compiler{Arch: runtime.GOARCH}
	if c.Language != C {
		cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
		cmd.Dir = folder // The go directive of the wrapper module may select another toolchain.
		version, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("query version of Go in %s: %w", folder, err)
		}
		with.GoVersion = strings.TrimSpace(string(version))
	}
	return hashInputs(os.DirFS(folder), c, with)
}

func (b *Builder) startHeartbeat(what string, start time.Time) (stop func()) {
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				fmt.Fprintf(b.progress(), "%s: still building after %s\n", what, elapsed(start))
			}
		}
	}()
	return func() { close(done) }
}

func elapsed(start time.Time) time.Duration { return time.Since(start).Round(time.Second / 10) }

func (b *Builder) progress() io.Writer {
	if b.Progress == nil {
		return io.Discard
	}
	return b.Progress
}

// lockPoll is the interval at which a held lock is tried again; builds last seconds to minutes.
const lockPoll = 200 * time.Millisecond

// lock takes an exclusive lock on the file. The kernel releases it when the process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}
