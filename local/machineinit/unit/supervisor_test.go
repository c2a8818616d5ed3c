package unit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeStarter starts simulated processes. The program "oneshot" ends at once, "fail" with exit code 1, "stubborn" only
// with SIGKILL, others with any signal.
type fakeStarter struct {
	mu      sync.Mutex
	next    int
	history []string
	running map[string]*fakeProcess
}

type fakeProcess struct {
	*process
	starter *fakeStarter
	program string
	once    sync.Once
}

func (f *fakeStarter) Start(p Program) (Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	program := filepath.Base(p.Args[0])
	if program == "missing" {
		return nil, errors.New("no such program")
	}
	f.history = append(f.history, strings.Join(append([]string{program}, p.Args[1:]...), " "))
	started := &fakeProcess{process: newProcess(f.next), starter: f, program: program}
	if f.running == nil {
		f.running = map[string]*fakeProcess{}
	}
	f.running[program] = started
	switch program {
	case "oneshot":
		started.end(Exit{})
	case "fail":
		started.end(Exit{Code: 1})
	}
	return started, nil
}

func (p *fakeProcess) end(exit Exit) { p.once.Do(func() { p.finish(exit) }) }

func (p *fakeProcess) Signal(signal syscall.Signal, _ bool) error {
	if p.program != "stubborn" || signal == syscall.SIGKILL {
		p.end(Exit{Signal: signal})
	}
	return nil
}

func (f *fakeStarter) log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.history...)
}

func (f *fakeStarter) kill(program string) {
	f.mu.Lock()
	p := f.running[program]
	f.mu.Unlock()
	p.end(Exit{Signal: syscall.SIGKILL})
}

// newTest returns a supervisor for the units in files, with simulated processes. It must be used in a bubble.
func newTest(t *testing.T, files map[string]string) (*Supervisor, *fakeStarter, string) {
	t.Helper()
	dir, starter := t.TempDir(), &fakeStarter{}
	write(t, dir, files)
	s := NewSupervisor(Options{
		Dirs: []string{dir}, LogDir: filepath.Join(dir, "log"), Starter: starter, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() {
		if err := s.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, starter, dir
}

func unitFile(body string) string { return "[Service]\n" + body }

func state(t *testing.T, s *Supervisor, name string) State {
	t.Helper()
	status, err := s.Status(name)
	if err != nil {
		t.Fatal(err)
	}
	return status.State
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{
			"c.service": "[Unit]\nAfter=b.service\n" + unitFile("ExecStart=/c"),
			"b.service": "[Unit]\nAfter=a.service\nWants=a.service gone.target\n" + unitFile("ExecStart=/b"),
			"a.service": unitFile("Type=oneshot\nExecStartPre=/oneshot pre\nExecStart=/oneshot one\nExecStart=/oneshot two"),
		})
		if err := s.Start(t.Context(), "c.service", "b.service"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"oneshot pre", "oneshot one", "oneshot two", "b", "c"}, starter.log()); diff != "" {
			t.Errorf("order mismatch (-want +got):\n%s", diff)
		}
		got := []State{state(t, s, "a.service"), state(t, s, "b.service"), state(t, s, "c.service")}
		if diff := cmp.Diff([]State{Inactive, Active, Active}, got); diff != "" {
			t.Errorf("states mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestRestartAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{"a.service": unitFile("ExecStart=/a\nRestart=always\nRestartSec=5")})
		if err := s.Start(t.Context(), "a.service"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // Long enough not to count as a failure to start.
		starter.kill("a")
		synctest.Wait()
		if got := state(t, s, "a.service"); got != AutoRestart {
			t.Errorf("state after kill -9 is %s, want %s", got, AutoRestart)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		status, err := s.Status("a.service")
		if err != nil {
			t.Fatal(err)
		}
		if status.State != Active || status.Restarts != 1 || !strings.Contains(status.Message, "signal 9") {
			t.Errorf("status after the restart: %+v", status)
		}
	})
}

func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{"a.service": unitFile("ExecStart=/fail\nRestart=always\nRestartSec=1")})
		if err := s.Start(t.Context(), "a.service"); err != nil {
			t.Fatal(err) // A process that runs for a moment has started.
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// 1 + 2 + 4 + 8 + 16 s, then every 30 s.
		if got, want := len(starter.log()), 1+5+(600-31)/30; got != want {
			t.Errorf("%d starts within ten minutes, want %d", got, want)
		}
	})
}

func TestFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTest(t, map[string]string{
			"pre.service":     unitFile("ExecStartPre=/fail\nExecStart=/a"),
			"missing.service": unitFile("ExecStart=/missing"),
			"ignored.service": unitFile("ExecStartPre=-/fail\nExecStart=/a"),
			"after.service":   "[Unit]\nAfter=pre.service\n" + unitFile("ExecStart=/b"),
		})
		err := s.Start(t.Context(), "pre.service", "missing.service", "ignored.service", "after.service")
		for _, want := range []string{"start pre.service: exit code 1", "start missing.service: no such program"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v does not contain %q", err, want)
			}
		}
		synctest.Wait()
		got := map[string]State{}
		for _, name := range []string{"pre.service", "missing.service", "ignored.service", "after.service"} {
			got[name] = state(t, s, name)
		}
		want := map[string]State{
			"pre.service": Failed, "missing.service": Failed, "ignored.service": Active, "after.service": Active,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states mismatch (-want +got):\n%s", diff)
		}
	})
}

// Each start of a unit that has ended runs it, even at the moment when the end is known.
func TestEachStartRuns(t *testing.T) {
	s, starter, _ := newTest(t, map[string]string{
		"good.service": unitFile("Type=oneshot\nExecStart=/oneshot"),
		"bad.service":  unitFile("Type=oneshot\nExecStart=/fail"),
	})
	const starts = 500
	for range starts {
		if err := s.Start(t.Context(), "good.service"); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context(), "bad.service"); err == nil {
			t.Fatal("a unit that fails was started")
		}
	}
	if got := len(starter.log()); got != 2*starts {
		t.Errorf("%d starts ran %d programs", 2*starts, got)
	}
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{
			"a.service": unitFile("ExecStart=/stubborn\nExecStop=/oneshot stop ${MAINPID}\nTimeoutStopSec=7\nRestart=always"),
		})
		if err := s.Start(t.Context(), "a.service"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := s.Stop(t.Context(), "a.service", "never-started.service"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 7*time.Second {
			t.Errorf("a process that ignores SIGTERM was killed after %s, want 7s", took)
		}
		if diff := cmp.Diff([]string{"stubborn", "oneshot stop 1"}, starter.log()); diff != "" {
			t.Errorf("programs mismatch (-want +got):\n%s", diff)
		}
		if got := state(t, s, "a.service"); got != Inactive {
			t.Errorf("state is %s, want %s", got, Inactive)
		}
	})
}

func TestStopDuringBackOffAndStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newTest(t, map[string]string{
			"failing.service": unitFile("ExecStart=/fail\nRestart=always\nRestartSec=1h"),
			"slow.service":    unitFile("Type=oneshot\nExecStart=/sleeps"),
			"after.service":   "[Unit]\nAfter=slow.service\n" + unitFile("ExecStart=/b"),
		})
		if err := s.Start(t.Context(), "failing.service"); err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- s.Start(t.Context(), "after.service", "slow.service") }()
		synctest.Wait()
		if err := s.Stop(t.Context(), "failing.service", "slow.service", "after.service"); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err == nil {
			t.Error("a start that was stopped half-way reports success")
		}
	})
}

func TestRemainAfterExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{
			"a.service":    unitFile("Type=oneshot\nExecStart=/oneshot\nRemainAfterExit=yes\nExecStop=/oneshot undo"),
			"skip.service": "[Unit]\nConditionPathExists=/nowhere\n" + unitFile("ExecStart=/skipped"),
		})
		for range 2 { // The second start finds it active.
			if err := s.Start(t.Context(), "a.service", "skip.service"); err != nil {
				t.Fatal(err)
			}
		}
		if got := state(t, s, "a.service"); got != Active {
			t.Errorf("state is %s, want %s", got, Active)
		}
		if err := s.Stop(t.Context(), "a.service"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"oneshot", "oneshot undo"}, starter.log()); diff != "" {
			t.Errorf("programs mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestStopAllGoesBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, _ := newTest(t, map[string]string{
			"a.service": unitFile("ExecStart=/a\nExecStop=/oneshot a"),
			"b.service": "[Unit]\nAfter=a.service\n" + unitFile("ExecStart=/b\nExecStop=/oneshot b"),
		})
		if err := s.Start(t.Context(), "a.service", "b.service"); err != nil {
			t.Fatal(err)
		}
		if err := s.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "oneshot b", "oneshot a"}, starter.log()); diff != "" {
			t.Errorf("programs mismatch (-want +got):\n%s", diff)
		}
		if err := s.Start(t.Context(), "a.service"); !errors.Is(err, ErrClosed) {
			t.Errorf("start after the end: %v, want ErrClosed", err)
		}
	})
}

func TestChangedFileCountsFromTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, dir := newTest(t, map[string]string{"a.service": unitFile("ExecStart=/a old\nRestart=always")})
		if err := s.Start(t.Context(), "a.service"); err != nil {
			t.Fatal(err)
		}
		write(t, dir, map[string]string{"a.service": unitFile("ExecStart=/a new\nRestart=always")})
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		starter.kill("a")
		time.Sleep(time.Second)
		synctest.Wait()
		write(t, dir, map[string]string{"a.service": unitFile("Type=nonsense")})
		if err := s.Reload(); err == nil {
			t.Error("Reload does not mind an unreadable unit")
		}
		if err := s.Restart(t.Context(), "a.service"); err == nil {
			t.Error("Restart does not mind an unreadable unit")
		}
		if got := state(t, s, "a.service"); got != Active {
			t.Errorf("a unit that could not be started again was stopped: %s", got)
		}
		if diff := cmp.Diff([]string{"a old", "a new"}, starter.log()); diff != "" {
			t.Errorf("programs mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestEnable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, starter, dir := newTest(t, map[string]string{
			"a.service": unitFile("ExecStart=/a\n[Install]\nWantedBy=my.target other.target"),
			"b.service": unitFile("ExecStart=/b"),
		})
		for _, name := range []string{"a.service", "b.service", "a.service"} {
			if err := s.Enable(name); err != nil {
				t.Fatal(err)
			}
		}
		for _, link := range []string{
			"my.target.wants/a.service", "other.target.wants/a.service", "multi-user.target.wants/b.service",
		} {
			if _, err := os.Stat(filepath.Join(dir, link)); err != nil {
				t.Error(err)
			}
		}
		if err := s.Disable("b.service"); err != nil {
			t.Fatal(err)
		}
		if err := s.StartEnabled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a"}, starter.log()); diff != "" {
			t.Errorf("programs mismatch (-want +got):\n%s", diff)
		}
		list, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, status := range list {
			got[status.Name] = status.Enabled
		}
		if diff := cmp.Diff(map[string]bool{"a.service": true, "b.service": false}, got); diff != "" {
			t.Errorf("enabled mismatch (-want +got):\n%s", diff)
		}
		if err := s.Enable("none.service"); !errors.Is(err, ErrNotFound) {
			t.Errorf("Enable of a missing unit: %v, want ErrNotFound", err)
		}
	})
}
