package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// service is one activation of a unit: from a start to the end that is not followed by an automatic restart.
type service struct {
	*Supervisor
	name   string
	cancel context.CancelFunc
	ctx    context.Context // Done when the unit shall stop.

	started   chan struct{} // Closed when the first attempt has succeeded or failed.
	startErr  error         // Valid once started is closed.
	startOnce sync.Once
	done      chan struct{} // Closed when the activation is over.

	stateMu sync.Mutex
	spec    *Spec
	now     Status
}

func newService(s *Supervisor, spec *Spec) *service {
	ctx, cancel := context.WithCancel(context.Background())
	return &service{
		Supervisor: s, name: spec.Name, spec: spec, ctx: ctx, cancel: cancel,
		started: make(chan struct{}), done: make(chan struct{}),
		now: Status{State: Activating, Since: s.options.Clock.Now()},
	}
}

func (s *service) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *service) currentSpec() *Spec {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	return s.spec
}

func (s *service) status(base Status) Status {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	base.State, base.Since, base.PID = s.now.State, s.now.Since, s.now.PID
	base.Restarts, base.Message = s.now.Restarts, s.now.Message
	return base
}

func (s *service) enter(state State) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.now.State, s.now.Since = state, s.options.Clock.Now()
}

func (s *service) setPID(pid int) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.now.PID = pid
}

// reportStart reports the result of the start to those who wait for it; only the first report counts.
func (s *service) reportStart(err error) {
	s.startOnce.Do(func() {
		if err != nil {
			s.startErr = fmt.Errorf("start %s: %w", s.name, err)
		}
		close(s.started)
	})
}

// run takes the unit through attempts until it is stopped or shall not be restarted.
func (s *service) run(after []*service) {
	result := errors.New("stopped before it was started")
	defer func() {
		s.cancel()
		close(s.done)
		s.reportStart(result) // Those who wait for it may start the unit again at once.
	}()
	for _, other := range after {
		select {
		case <-other.started:
		case <-s.ctx.Done():
			s.enter(Inactive)
			return
		}
	}
	clock, log, quick := s.options.Clock, s.options.Log, 0
	for {
		begin := clock.Now()
		exit := s.attempt()
		s.setPID(0)
		s.stateMu.Lock()
		s.now.Message = exit.String()
		s.stateMu.Unlock()
		if s.ctx.Err() != nil {
			s.enter(Inactive)
			return
		}
		if result = nil; !exit.OK() {
			result = errors.New(exit.String())
		}
		if quick++; clock.Now().Sub(begin) >= quickFailure {
			quick = 1
		}
		delay, again := decideRestart(s.currentSpec(), exit, quick)
		if !again {
			log.Info("Unit ended", "unit", s.name, "result", exit.String())
			if exit.OK() {
				s.enter(Inactive)
			} else {
				s.enter(Failed)
			}
			return
		}
		s.reportStart(result)
		log.Info("Unit ended and will be restarted", "unit", s.name, "result", exit.String(), "delay", delay.String())
		s.enter(AutoRestart)
		select {
		case <-clock.After(delay):
		case <-s.ctx.Done():
			s.enter(Inactive)
			return
		}
		s.reload()
	}
}

// reload takes over a changed file before a restart. A file that cannot be read leaves the unit as it was.
func (s *service) reload() {
	spec, err := Load(s.name, s.options.Dirs)
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.now.Restarts++
	if err == nil {
		s.spec = spec
	}
}

// attempt runs the unit once, from ExecStartPre to the end of its main process.
func (s *service) attempt() Exit {
	spec := s.currentSpec()
	if running := s.adopt(); running != nil {
		s.active(running, spec)
		return s.watch(running, spec, nil)
	}
	s.enter(Activating)
	for _, condition := range spec.ConditionPathExists {
		if path, not := strings.CutPrefix(condition, "!"); exists(path) == not {
			s.options.Log.Info("Unit is skipped", "unit", s.name, "condition", condition)
			return Exit{}
		}
	}
	env, err := s.environment(spec)
	if err != nil {
		return Exit{Err: err}
	}
	output, err := s.logs.open(s.name)
	if err != nil {
		return Exit{Err: err}
	}
	defer output.Close()
	if exit := s.runAll(spec.ExecStartPre, spec, env, output); !exit.OK() {
		return exit
	}
	if spec.Type == Oneshot {
		return s.oneshot(spec, env, output)
	}
	return s.longRunning(spec, env, output)
}

func (s *service) oneshot(spec *Spec, env []string, output *os.File) Exit {
	if exit := s.runAll(spec.ExecStart, spec, env, output); !exit.OK() {
		return exit
	}
	if exit := s.runAll(spec.ExecStartPost, spec, env, output); !exit.OK() || !spec.RemainAfterExit {
		return exit
	}
	s.enter(Active)
	s.reportStart(nil)
	<-s.ctx.Done()
	s.enter(Deactivating)
	s.runStop(spec, env, output)
	return Exit{}
}

func (s *service) longRunning(spec *Spec, env []string, output *os.File) Exit {
	var ready *readiness
	if spec.Type == Notify {
		var err error
		if ready, err = listenReady(); err != nil {
			return Exit{Err: err}
		}
		defer ready.close()
		env = append(env, "NOTIFY_SOCKET="+ready.path)
	}
	main, err := s.options.Starter.Start(Program{
		Args: spec.ExecStart[0].Args(env, s.name), Env: env, Dir: spec.WorkingDirectory, Output: output,
	})
	if err != nil {
		return Exit{Err: err}
	}
	s.remember(main.PID())
	defer s.forget()
	s.setPID(main.PID())
	s.options.Log.Info("Unit started", "unit", s.name, "pid", main.PID())
	if ready != nil {
		var timeout <-chan time.Time
		if spec.StartTimeout > 0 {
			timeout = s.options.Clock.After(spec.StartTimeout)
		}
		select {
		case <-ready.received:
		case <-main.Done():
			return main.Exit()
		case <-timeout:
			s.kill(main, spec)
			return Exit{Err: fmt.Errorf("not ready within %s", spec.StartTimeout)}
		case <-s.ctx.Done():
		}
	}
	if exit := s.runAll(spec.ExecStartPost, spec, env, output); !exit.OK() && s.ctx.Err() == nil {
		s.kill(main, spec)
		return exit
	}
	s.active(main, spec)
	return s.watch(main, spec, func() {
		s.runStop(spec, append(env, "MAINPID="+strconv.Itoa(main.PID())), output)
	})
}

func (s *service) active(main Process, _ *Spec) {
	s.setPID(main.PID())
	s.enter(Active)
	s.reportStart(nil)
}

// watch waits for the end of the main process, and brings it about when the unit shall stop.
func (s *service) watch(main Process, spec *Spec, stop func()) Exit {
	select {
	case <-main.Done():
	case <-s.ctx.Done():
		s.enter(Deactivating)
		if stop != nil {
			stop()
		}
		s.kill(main, spec)
	}
	// Processes that the main process has left in its group would otherwise run alongside its successor.
	if !spec.KillMainOnly {
		_ = main.Signal(syscall.SIGKILL, true)
	}
	return main.Exit()
}

// runAll runs commands one after the other up to the first failure.
func (s *service) runAll(commands []Command, spec *Spec, env []string, output *os.File) Exit {
	for _, command := range commands {
		program := Program{Args: command.Args(env, s.name), Env: env, Dir: spec.WorkingDirectory, Output: output}
		running, err := s.options.Starter.Start(program)
		exit := Exit{Err: err}
		if err == nil {
			s.setPID(running.PID())
			select {
			case <-running.Done():
			case <-s.ctx.Done():
				s.kill(running, spec)
			}
			exit = running.Exit()
		}
		if s.ctx.Err() != nil {
			return Exit{Signal: syscall.SIGTERM}
		}
		// An end by SIGTERM or the like is a success for a service, but not for a command.
		if !command.IgnoreFailure && (!exit.OK() || exit.Signal != 0) {
			if exit.OK() {
				exit.Err = fmt.Errorf("%s was %s", command.Words[0], exit)
			}
			return exit
		}
	}
	return Exit{}
}

// runStop runs ExecStop, which must not be cut short by the stop that caused it.
func (s *service) runStop(spec *Spec, env []string, output *os.File) {
	for _, command := range spec.ExecStop {
		program := Program{Args: command.Args(env, s.name), Env: env, Dir: spec.WorkingDirectory, Output: output}
		running, err := s.options.Starter.Start(program)
		if err != nil {
			s.options.Log.Error("Stop command cannot be started", "unit", s.name, "error", err)
			continue
		}
		select {
		case <-running.Done():
		case <-s.stopTimeout(spec):
			_ = running.Signal(syscall.SIGKILL, true)
			<-running.Done()
		}
	}
}

// kill signals a process to end and kills it after the unit's stop timeout.
func (s *service) kill(p Process, spec *Spec) {
	if err := p.Signal(syscall.SIGTERM, !spec.KillMainOnly); err != nil {
		s.options.Log.Error("Process cannot be stopped", "unit", s.name, "error", err)
	}
	select {
	case <-p.Done():
		return
	case <-s.stopTimeout(spec):
	}
	s.options.Log.Info("Process is killed, since it did not stop in time", "unit", s.name, "pid", p.PID())
	if err := p.Signal(syscall.SIGKILL, !spec.KillMainOnly); err != nil {
		s.options.Log.Error("Process cannot be killed", "unit", s.name, "error", err)
	}
	<-p.Done()
}

func (s *service) stopTimeout(spec *Spec) <-chan time.Time {
	if spec.StopTimeout == 0 {
		return nil
	}
	return s.options.Clock.After(spec.StopTimeout)
}

func (s *service) environment(spec *Spec) ([]string, error) {
	env := append([]string{}, s.options.Env...)
	for _, entry := range spec.Environment {
		env = append(env, expandSpecifiers(entry, s.name))
	}
	for _, file := range spec.EnvironmentFiles {
		entries, err := readEnvironmentFile(file)
		if err != nil {
			return nil, err
		}
		env = append(env, entries...)
	}
	return lastSettings(env), nil
}

// lastSettings leaves the last setting of each variable: most programs would take the first.
func lastSettings(env []string) []string {
	last := map[string]int{}
	for i, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	var out []string
	for i, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); last[name] == i {
			out = append(out, entry)
		}
	}
	return out
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
