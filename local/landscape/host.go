package landscape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/local/machineinit/unit"
)

const (
	containerdUnit = "hortus-containerd.service"
	cloudUnit      = "hortus-cloud.service"
	// supervisorStart bounds the wait for the first answer of the supervisor; it has nothing to do before that.
	supervisorStart = 10 * time.Second
	// supervisorStop bounds how long its units may take to stop; containerd is given 10 s by the supervisor.
	supervisorStop = 30 * time.Second
)

// hostPaths are the places of the host's processes.
type hostPaths struct{ stateDir, runDir string }

func (p hostPaths) units() string   { return filepath.Join(p.stateDir, "host", "units") }
func (p hostPaths) logs() string    { return filepath.Join(p.stateDir, "host", "logs") }
func (p hostPaths) records() string { return filepath.Join(p.runDir, "host") }
func (p hostPaths) socket() string  { return filepath.Join(p.runDir, "host.sock") }
func (p hostPaths) pidFile() string { return filepath.Join(p.runDir, "host.pid") }

// NewHostCommand returns 'hortus host', which keeps containerd and the cloud running. 'hortus up' starts it.
func NewHostCommand() *cobra.Command {
	var paths hostPaths
	command := &cobra.Command{
		Use:    "host",
		Short:  "Keep the landscape's host processes running",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(command *cobra.Command, _ []string) error { return superviseHost(command.Context(), paths) },
	}
	command.Flags().StringVar(&paths.stateDir, "state-dir", "", "folder of units and logs")
	command.Flags().StringVar(&paths.runDir, "run-dir", "", "folder of sockets and records of processes")
	return command
}

func superviseHost(ctx context.Context, paths hostPaths) error {
	supervisor := unit.NewSupervisor(unit.Options{
		Dirs: []string{paths.units()}, LogDir: paths.logs(), RunDir: paths.records(),
	})
	lock, err := lockFile(paths.pidFile())
	if err != nil {
		return fmt.Errorf("be the only supervisor: %w", err)
	}
	defer lock.Close()
	_ = os.Remove(paths.socket()) // Of a supervisor that was killed.
	listener, err := net.Listen("unix", paths.socket())
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	if err := os.Chmod(paths.socket(), 0o600); err != nil {
		return fmt.Errorf("protect the command socket: %w", err)
	}
	server := &http.Server{Handler: supervisor.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	// Errors of units are in their status and logs; the supervisor continues and retries them as their files configure.
	_ = supervisor.StartEnabled(ctx)
	select {
	case err := <-served:
		return fmt.Errorf("serve commands: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), supervisorStop)
	defer cancel()
	return errors.Join(supervisor.StopAll(stopping), server.Shutdown(stopping))
}

// ensureSupervisor starts the supervisor unless it runs, and returns its client.
func ensureSupervisor(ctx context.Context, paths hostPaths) (*unit.Client, error) {
	client := unit.NewClient(paths.socket())
	if _, err := client.List(ctx); err == nil {
		return client, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the hortus binary: %w", err)
	}
	for _, dir := range []string{paths.units(), paths.logs(), paths.records()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make folder: %w", err)
		}
	}
	log, err := os.OpenFile(filepath.Join(paths.logs(), "supervisor.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	process := exec.Command(self, "host", "--state-dir", paths.stateDir, "--run-dir", paths.runDir)
	process.Dir = "/" // It outlives the terminal and must not keep a file system from being unmounted.
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	if err := process.Process.Release(); err != nil {
		return nil, fmt.Errorf("detach the supervisor: %w", err)
	}
	deadline, cancel := context.WithTimeout(ctx, supervisorStart)
	defer cancel()
	for {
		_, err := client.List(deadline)
		if err == nil {
			return client, nil
		}
		select {
		case <-deadline.Done():
			return nil, fmt.Errorf("the supervisor does not answer, see %s: %w", log.Name(), err)
		case <-time.After(20 * time.Millisecond): // Its socket appears within milliseconds.
		}
	}
}

// ensureUnit makes a unit run what its file says; a changed file restarts it.
func ensureUnit(ctx context.Context, client *unit.Client, paths hostPaths, name, content string) error {
	path := filepath.Join(paths.units(), name)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read unit: %w", err)
	}
	changed := string(old) != content
	if changed {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write unit: %w", err)
		}
	}
	if err := client.Enable(ctx, name); err != nil {
		return fmt.Errorf("enable %s: %w", name, err)
	}
	status, err := client.Status(ctx, name)
	if err == nil && status.State == unit.Active && changed {
		err = client.Restart(ctx, name)
	} else {
		err = client.Start(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("start %s, see %s: %w", name, filepath.Join(paths.logs(), name), err)
	}
	return nil
}

// service is a program of the host that is to run always.
type service struct {
	description string
	after       string   // Name of a unit that is started before, or empty.
	environment []string // NAME=value; there is nothing else but a PATH.
	command     []string
}

// unitFile is the file by which the supervisor runs the service.
func (s service) unitFile() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Unit]\nDescription=%s\n", s.description)
	if s.after != "" {
		fmt.Fprintf(&b, "After=%s\n", s.after)
	}
	b.WriteString("\n[Service]\n")
	for _, variable := range s.environment {
		fmt.Fprintf(&b, "Environment=%s\n", unit.Quote(variable))
	}
	b.WriteString("ExecStart=:") // The colon disables the expansion of variables.
	for i, word := range s.command {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(unit.Quote(word))
	}
	b.WriteString("\nRestart=always\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n")
	return b.String()
}

// stopSupervisor stops the host's processes and the supervisor, in whatever state they are.
func stopSupervisor(ctx context.Context, paths hostPaths) error {
	data, err := os.ReadFile(paths.pidFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pid file: %w", err)
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		return fmt.Errorf("read pid file %s: %w", paths.pidFile(), err)
	}
	lock, err := lockFile(paths.pidFile())
	if err == nil {
		// The lock is free: the supervisor was killed, or the machine has failed. This process stops the remaining processes.
		defer lock.Close()
		supervisor := unit.NewSupervisor(unit.Options{
			Dirs: []string{paths.units()}, LogDir: paths.logs(), RunDir: paths.records(),
		})
		if err := supervisor.StopAdopted(ctx); err != nil {
			return fmt.Errorf("stop what a killed supervisor has left: %w", err)
		}
		return os.Remove(paths.pidFile())
	}
	if held := (*heldError)(nil); !errors.As(err, &held) {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the supervisor: %w", err)
	}
	deadline, cancel := context.WithTimeout(ctx, supervisorStop)
	defer cancel()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-deadline.Done():
			return fmt.Errorf("the supervisor (process %d) does not stop", pid)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return os.Remove(paths.pidFile())
}
