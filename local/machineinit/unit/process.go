package unit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Program is a program for a Starter to run.
type Program struct {
	Args   []string // Args[0] is a path, or a name that is looked up in PATH.
	Env    []string
	Dir    string
	Output *os.File // Standard output and error.
}

// Process is a started program. It leads its own session, so its group can be signalled as a whole.
type Process interface {
	PID() int
	// Done is closed when the process has ended; Exit may be called from then on.
	Done() <-chan struct{}
	Exit() Exit
	// Signal reaches the whole process group, or only the process itself. A process that is gone is no error.
	Signal(signal syscall.Signal, group bool) error
}

// Starter starts programs.
type Starter interface {
	Start(Program) (Process, error)
}

// process is a Process whose end its starter reports through finish.
type process struct {
	pid  int
	done chan struct{}
	exit Exit
}

func newProcess(pid int) *process { return &process{pid: pid, done: make(chan struct{})} }

func (p *process) PID() int              { return p.pid }
func (p *process) Done() <-chan struct{} { return p.done }
func (p *process) Exit() Exit            { return p.exit }

func (p *process) finish(exit Exit) {
	p.exit = exit
	close(p.done)
}

func (p *process) Signal(signal syscall.Signal, group bool) error {
	target := p.pid
	if group {
		target = -p.pid
	} else {
		select {
		case <-p.done: // The PID may belong to another process by now.
			return nil
		default:
		}
	}
	if err := syscall.Kill(target, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send signal %d to process %d: %w", signal, p.pid, err)
	}
	return nil
}

// Exec starts ordinary child processes.
type Exec struct{}

// Start implements Starter.
func (Exec) Start(program Program) (Process, error) {
	started, err := start(program)
	if err != nil {
		return nil, err
	}
	p := newProcess(started.Pid)
	go func() {
		state, err := started.Wait()
		if err != nil {
			p.finish(Exit{Err: fmt.Errorf("wait for process %d: %w", p.pid, err)})
			return
		}
		p.finish(exitOf(state.Sys().(syscall.WaitStatus)))
	}()
	return p, nil
}

func start(program Program) (*os.Process, error) {
	path, err := exec.LookPath(program.Args[0])
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Args[0], err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Args[0], err)
	}
	defer null.Close()
	started, err := os.StartProcess(path, program.Args, &os.ProcAttr{
		Dir: program.Dir, Env: program.Env,
		Files: []*os.File{null, program.Output, program.Output},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program.Args[0], err)
	}
	return started, nil
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}
