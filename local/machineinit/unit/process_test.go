package unit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/hortus/test/leaks"
)

// The test program has several roles when it is started again with this variable.
const partVariable = "UNIT_TEST_PART"

// fileVariable names the file that playNotify waits for.
const fileVariable = "UNIT_TEST_FILE"

func TestMain(m *testing.M) {
	switch os.Getenv(partVariable) {
	case "notify":
		playNotify()
	case "reaper":
		playReaper()
	default:
		leaks.Main(m)
	}
}

// playNotify reports that it is ready when a file exists, and keeps running.
func playNotify() {
	fmt.Println("ready soon")
	for {
		if _, err := os.Stat(os.Getenv(fileVariable)); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	socket, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if _, err := socket.Write([]byte("STATUS=fine\nREADY=1")); err != nil {
		os.Exit(1)
	}
	time.Sleep(time.Hour) // Real time: until the process is stopped.
}

// playReaper is a process 1: it starts a shell that leaves an orphan, and succeeds if both were reaped.
func playReaper() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reaper := NewReaper()
	go reaper.Run(ctx)
	for range 50 {
		p, err := reaper.Start(Program{Args: []string{"/bin/sh", "-c", "(sleep 0.05 &) ; exit 3"}, Output: os.Stdout})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		<-p.Done()
		if exit := p.Exit(); exit.Code != 3 {
			fmt.Println("exit", exit)
			os.Exit(1)
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		// ECHILD: no child is left, so all orphans were reaped.
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
	fmt.Println("orphans are left")
	os.Exit(1)
}

func newReal(t *testing.T, files map[string]string, o Options) (*Supervisor, string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	o.Dirs, o.LogDir, o.Log = []string{dir}, filepath.Join(dir, "log"), slog.New(slog.DiscardHandler)
	s := NewSupervisor(o)
	t.Cleanup(func() {
		if err := s.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

// console is a writer for concurrent use.
type console struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// eventually waits for an effect of another process.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}

func TestNotify(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := &console{}
	file := filepath.Join(t.TempDir(), "ready")
	s, dir := newReal(t, map[string]string{
		"a.service": "[Service]\nType=notify\nEnvironment=" + partVariable + "=notify\n" +
			"Environment=" + fileVariable + "=" + file + "\nExecStart=" + self + "\n",
	}, Options{Console: out})
	started := make(chan error, 1)
	go func() { started <- s.Start(t.Context(), "a.service") }()
	eventually(t, "the output is in the log and on the console", func() bool {
		log, err := os.ReadFile(filepath.Join(dir, "log", "a.log"))
		return err == nil && strings.Contains(string(log), "ready soon") && strings.Contains(out.String(), "a: ready soon\n")
	})
	select {
	case err := <-started:
		t.Fatalf("Start() = %v before the unit is ready", err)
	default:
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

func TestNotifyTimeout(t *testing.T) {
	s, _ := newReal(t, map[string]string{
		"a.service": "[Service]\nType=notify\nExecStart=/bin/sleep 1000\nTimeoutStartSec=50ms\n",
	}, Options{})
	if err := s.Start(t.Context(), "a.service"); err == nil || !strings.Contains(err.Error(), "not ready within 50ms") {
		t.Errorf("Start: %v", err)
	}
}

func TestReaper(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), partVariable+"=reaper")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStopReachesChildren(t *testing.T) {
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	s, _ := newReal(t, map[string]string{
		"a.service": "[Service]\nExecStart=/bin/sh -c 'sleep 1000 & echo $! > " + pidFile + "; wait'\n",
	}, Options{})
	if err := s.Start(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}
	var pid int
	eventually(t, "the child has started", func() bool {
		content, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		n, _ := fmt.Sscan(string(content), &pid)
		return n == 1
	})
	if err := s.Stop(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child has ended", func() bool {
		_, err := startTime(pid)
		return err != nil
	})
}

func TestAdopt(t *testing.T) {
	dir, run := t.TempDir(), t.TempDir()
	write(t, dir, map[string]string{
		"a.service": "[Service]\nExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=10ms\n",
	})
	options := Options{
		Dirs: []string{dir}, LogDir: filepath.Join(dir, "log"), RunDir: run, Log: slog.New(slog.DiscardHandler),
	}
	first := NewSupervisor(options)
	if err := first.Start(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}
	before, err := first.Status("a.service")
	if err != nil {
		t.Fatal(err)
	}
	// The first supervisor is forgotten, as if it had been killed: no stop, no clean-up.
	second := NewSupervisor(options)
	if err := second.Start(t.Context(), "a.service"); err != nil {
		t.Fatal(err)
	}
	after, err := second.Status("a.service")
	if err != nil {
		t.Fatal(err)
	}
	if after.State != Active || after.PID != before.PID {
		t.Errorf("the second supervisor has %s with process %d, want %s with %d", after.State, after.PID, Active, before.PID)
	}
	// From here on only the second supervisor may act.
	first.services["a.service"].cancel()
	<-first.services["a.service"].done
	eventually(t, "an adopted process that ends is replaced", func() bool {
		status, err := second.Status("a.service")
		return err == nil && status.State == Active && status.PID != before.PID && status.PID != 0
	})
	if err := second.StopAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A PID that now belongs to another process is not adopted.
	write(t, run, map[string]string{"a.pid": fmt.Sprintf("%d 1\n", os.Getpid())})
	third := newService(NewSupervisor(options), &Spec{Name: "a.service"})
	if p := third.adopt(); p != nil {
		t.Errorf("adopted foreign process %d", p.PID())
	}
}

func TestStopAdopted(t *testing.T) {
	dir, run := t.TempDir(), t.TempDir()
	write(t, dir, map[string]string{
		"running.service": "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n",
		"idle.service": "[Service]\nExecStart=/bin/touch " + filepath.Join(run, "started") +
			"\n[Install]\nWantedBy=multi-user.target\n",
	})
	options := Options{
		Dirs: []string{dir}, LogDir: filepath.Join(dir, "log"), RunDir: run, Log: slog.New(slog.DiscardHandler),
	}
	first := NewSupervisor(options)
	for _, name := range []string{"running.service", "idle.service"} {
		if err := first.Enable(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Start(t.Context(), "running.service"); err != nil {
		t.Fatal(err)
	}
	pid := first.services["running.service"].status(Status{}).PID
	// The first supervisor is forgotten, as if it had been killed.
	if err := NewSupervisor(options).StopAdopted(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process ends", func() bool {
		_, err := startTime(pid)
		return err != nil
	})
	if exists(filepath.Join(run, "started")) {
		t.Error("a unit that did not run was started")
	}
}

func TestClientAndServer(t *testing.T) {
	s, dir := newReal(t, map[string]string{
		"a.service": "[Unit]\nDescription=An example\n[Service]\nExecStart=/bin/sleep 1000\n",
		"b.service": "[Service]\nExecStart=/nowhere/program\n",
	}, Options{})
	socket := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s.Handler()}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	client, ctx := NewClient(socket), t.Context()

	for _, do := range []func() error{
		func() error { return client.Enable(ctx, "a.service") },
		func() error { return client.Start(ctx, "a.service") },
		func() error { return client.Restart(ctx, "a.service") },
		func() error { return client.Reload(ctx) },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	status, err := client.Status(ctx, "a.service")
	if err != nil {
		t.Fatal(err)
	}
	if status.State != Active || !status.Enabled || status.PID == 0 || status.Description != "An example" {
		t.Errorf("status: %+v", status)
	}
	if list, err := client.List(ctx); err != nil || len(list) != 2 {
		t.Errorf("List: %v, %v", list, err)
	}
	if err := client.Start(ctx, "b.service"); err == nil || !strings.Contains(err.Error(), "/nowhere/program") {
		t.Errorf("Start of a missing program: %v", err)
	}
	if _, err := client.Status(ctx, "c.service"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Status of a missing unit: %v, want ErrNotFound", err)
	}
	if err := client.do(ctx, "a.service", "explode"); err == nil || !strings.Contains(err.Error(), "not one of") {
		t.Errorf("an unknown action: %v", err)
	}
	if err := client.Disable(ctx, "a.service"); err != nil {
		t.Error(err)
	}
	if err := client.Stop(ctx, "a.service"); err != nil {
		t.Error(err)
	}
	if _, err := NewClient(filepath.Join(dir, "none")).List(ctx); err == nil {
		t.Error("List without a server succeeds")
	}
}

func TestLogRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxLogBytes+1); err != nil {
		t.Fatal(err)
	}
	file, err := (&logs{dir: dir}).open("a.service")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("new log: %v, %v", info, err)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Error(err)
	}
}
