// Package conformance is the suite that every units.Manager has to pass.
package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hortus.dev/hortus/internal/nodeagent/units"
)

// Host is the host of a Manager.
type Host struct {
	Units units.Manager
	// Dir is the directory of unit files.
	Dir string
	// RestartManager restarts the process that runs the units, and leaves these running. Nil means that units have no
	// processes; the checks that need processes are skipped then.
	RestartManager func(*testing.T)
}

const (
	patience = 30 * time.Second
	pause    = 20 * time.Millisecond
	// manyFailures is above systemd's default limit of starts of a unit within DefaultStartLimitIntervalSec.
	manyFailures = 8
)

// Run runs all checks as subtests, each with units of its own.
func Run(t *testing.T, host Host) {
	for i, c := range []struct {
		name           string
		needsProcesses bool
		run            func(*testing.T, *fixture)
	}{
		{name: "a unit without a file cannot be started, but stopped and disabled", run: checkMissing},
		{name: "a new unit runs once it is started, and a second start changes nothing", run: checkStart},
		{name: "enabling and disabling says what starts at boot, not what runs", run: checkEnable},
		{name: "a restart starts what runs anew, and what does not run", run: checkRestart},
		{name: "a removed unit is unknown", run: checkRemoval},
		{name: "a changed file counts after reload and restart", needsProcesses: true, run: checkChange},
		{name: "a drop-in counts after reload and restart, and no more without it", needsProcesses: true, run: checkDropIn},
		{name: "a failure to start is an error with its reason", needsProcesses: true, run: checkFailure},
		{name: "a unit that has failed often starts when it can", needsProcesses: true, run: checkRecovery},
		{name: "a start takes as long as the unit needs", needsProcesses: true, run: checkLongStart},
		{name: "a start that nobody waits for continues", needsProcesses: true, run: checkAbandonedStart},
		{name: "a stop takes as long as the unit needs", needsProcesses: true, run: checkLongStop},
		{name: "a unit that dies is started again if its file says so", needsProcesses: true, run: checkAutoRestart},
		{name: "units outlive a restart of what runs them", needsProcesses: true, run: checkManagerRestart},
	} {
		if c.needsProcesses && host.RestartManager == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			f := &fixture{Host: host, ctx: t.Context(), name: "conformance-" + strconv.Itoa(i+1) + ".service", tmp: t.TempDir()}
			t.Cleanup(func() { f.remove(t) })
			c.run(t, f)
		})
	}
}

// fixture is one unit.
type fixture struct {
	Host
	ctx  context.Context
	name string
	tmp  string
}

const install = "\n[Install]\nWantedBy=multi-user.target\n"

// sleeper runs until it is stopped.
const sleeper = "[Service]\nExecStart=/bin/sleep 1000\n"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file below the directory of units, and makes it known.
func (f *fixture) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(f.Dir, path)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
	must(t, f.Units.Reload(f.ctx))
}

// unit writes the file of the unit.
func (f *fixture) unit(t *testing.T, service string) {
	t.Helper()
	f.write(t, f.name, "[Unit]\nDescription=a check of conformance\n"+service+install)
}

// script returns the command line of a shell script.
func (f *fixture) script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(f.tmp, name)
	must(t, os.WriteFile(path, []byte(text), 0o644))
	return "/bin/sh " + path
}

func (f *fixture) remove(t *testing.T) {
	ctx := context.Background()
	must(t, f.Units.Stop(ctx, f.name))
	must(t, f.Units.Disable(ctx, f.name))
	must(t, os.RemoveAll(filepath.Join(f.Dir, f.name+".d")))
	must(t, os.RemoveAll(filepath.Join(f.Dir, f.name)))
	must(t, f.Units.Reload(ctx))
}

func (f *fixture) status(t *testing.T) units.Status {
	t.Helper()
	status, err := f.Units.Status(f.ctx, f.name)
	must(t, err)
	return status
}

func (f *fixture) wantStatus(t *testing.T, when string, state units.State, enabled bool) units.Status {
	t.Helper()
	status := f.status(t)
	if status.State != state || status.Enabled != enabled || (status.PID != 0) != (state == units.Active) {
		t.Errorf("%s the unit is %+v, want %s, enabled: %t", when, status, state, enabled)
	}
	return status
}

// eventually waits for a state.
func (f *fixture) eventually(t *testing.T, what string, reached func(units.Status) bool) {
	t.Helper()
	last := units.Status{}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		if last = f.status(t); reached(last) {
			return
		}
	}
	t.Fatalf("%s: not within %s; the unit is %+v", what, patience, last)
}

func (f *fixture) eventuallyFile(t *testing.T, name, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		content, err := os.ReadFile(filepath.Join(f.tmp, name))
		if got = strings.TrimSpace(string(content)); err == nil && got == want {
			return
		}
	}
	t.Fatalf("%s has %q after %s, want %q", name, got, patience, want)
}

func checkMissing(t *testing.T, f *fixture) {
	if _, err := f.Units.Status(f.ctx, f.name); !errors.Is(err, units.ErrNotFound) {
		t.Errorf("Status: %v, want ErrNotFound", err)
	}
	for operation, do := range map[string]func(context.Context, string) error{
		"start": f.Units.Start, "restart": f.Units.Restart, "enable": f.Units.Enable,
	} {
		if err := do(f.ctx, f.name); !errors.Is(err, units.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", operation, err)
		}
	}
	must(t, f.Units.Stop(f.ctx, f.name))
	must(t, f.Units.Disable(f.ctx, f.name))
}

func checkStart(t *testing.T, f *fixture) {
	f.unit(t, sleeper)
	f.wantStatus(t, "before the start", units.Inactive, false)
	must(t, f.Units.Start(f.ctx, f.name))
	first := f.wantStatus(t, "after the start", units.Active, false)
	must(t, f.Units.Start(f.ctx, f.name))
	if second := f.status(t); second.PID != first.PID {
		t.Error("a unit that runs was started again")
	}
	must(t, f.Units.Stop(f.ctx, f.name))
	f.wantStatus(t, "after the stop", units.Inactive, false)
	must(t, f.Units.Stop(f.ctx, f.name))
}

func checkEnable(t *testing.T, f *fixture) {
	f.unit(t, sleeper)
	must(t, f.Units.Enable(f.ctx, f.name))
	must(t, f.Units.Enable(f.ctx, f.name))
	f.wantStatus(t, "enabled", units.Inactive, true)
	must(t, f.Units.Start(f.ctx, f.name))
	f.wantStatus(t, "enabled and started", units.Active, true)
	must(t, f.Units.Disable(f.ctx, f.name))
	must(t, f.Units.Disable(f.ctx, f.name))
	f.wantStatus(t, "disabled", units.Active, false)
}

func checkRestart(t *testing.T, f *fixture) {
	f.unit(t, sleeper)
	must(t, f.Units.Restart(f.ctx, f.name))
	first := f.wantStatus(t, "after the first restart", units.Active, false)
	must(t, f.Units.Restart(f.ctx, f.name))
	if second := f.wantStatus(t, "after the second restart", units.Active, false); second.PID == first.PID {
		t.Error("a restart left the process as it was")
	}
}

func checkRemoval(t *testing.T, f *fixture) {
	f.unit(t, sleeper)
	must(t, f.Units.Enable(f.ctx, f.name))
	must(t, f.Units.Start(f.ctx, f.name))
	f.remove(t)
	if status, err := f.Units.Status(f.ctx, f.name); !errors.Is(err, units.ErrNotFound) {
		t.Errorf("Status: %+v, %v, want ErrNotFound", status, err)
	}
	if links, err := filepath.Glob(filepath.Join(f.Dir, "*", f.name)); err != nil || len(links) > 0 {
		t.Errorf("left of the unit: %q, %v", links, err)
	}
	f.remove(t) // What a node agent that was stopped half-way does.
}

// writesWord is a service that writes $WORD, which is given, into a file and stays.
func (f *fixture) writesWord(t *testing.T, word string) string {
	command := f.script(t, "word.sh",
		"echo $WORD >"+f.tmp+"/word.new; mv "+f.tmp+"/word.new "+f.tmp+"/word\nexec sleep 1000\n")
	return "[Service]\nEnvironment=WORD=" + word + "\nExecStart=" + command + "\n"
}

func checkChange(t *testing.T, f *fixture) {
	f.unit(t, f.writesWord(t, "one"))
	must(t, f.Units.Start(f.ctx, f.name))
	f.eventuallyFile(t, "word", "one")
	running := f.status(t).PID
	f.unit(t, f.writesWord(t, "two"))
	if f.status(t).PID != running {
		t.Error("the reload restarted the unit")
	}
	must(t, f.Units.Restart(f.ctx, f.name))
	f.eventuallyFile(t, "word", "two")
}

func checkDropIn(t *testing.T, f *fixture) {
	f.unit(t, f.writesWord(t, "file"))
	f.write(t, f.name+".d/10.conf", "[Service]\nEnvironment=WORD=drop-in\n")
	must(t, f.Units.Start(f.ctx, f.name))
	f.eventuallyFile(t, "word", "drop-in")
	must(t, os.Remove(filepath.Join(f.Dir, f.name+".d/10.conf")))
	must(t, f.Units.Reload(f.ctx))
	must(t, f.Units.Restart(f.ctx, f.name))
	f.eventuallyFile(t, "word", "file")
}

func checkFailure(t *testing.T, f *fixture) {
	f.unit(t, "[Service]\nType=oneshot\nExecStart="+f.script(t, "fail.sh", "exit 3\n")+"\n")
	for operation, do := range map[string]func(context.Context, string) error{
		"start": f.Units.Start, "restart": f.Units.Restart,
	} {
		if err := do(f.ctx, f.name); err == nil || !strings.Contains(err.Error(), "3") {
			t.Errorf("%s of a unit that ends with exit code 3: %v", operation, err)
		}
	}
	status := f.wantStatus(t, "after a failure", units.Failed, false)
	if !strings.Contains(status.Reason, "3") {
		t.Errorf("the reason of exit code 3 is %q", status.Reason)
	}
	must(t, f.Units.Stop(f.ctx, f.name))
}

func checkRecovery(t *testing.T, f *fixture) {
	fixed := filepath.Join(f.tmp, "fixed")
	f.unit(t, "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart="+f.script(t, "try.sh", "test -e "+fixed+"\n")+"\n")
	for range manyFailures {
		if f.Units.Start(f.ctx, f.name) == nil {
			t.Fatal("a unit that fails was started")
		}
	}
	must(t, os.WriteFile(fixed, nil, 0o644))
	must(t, f.Units.Start(f.ctx, f.name))
	if status := f.status(t); status.State != units.Active || status.Reason != "" {
		t.Errorf("after the recovery the unit is %+v", status)
	}
}

// slow is a service that is started once the file "go" exists.
func (f *fixture) slow(t *testing.T) string {
	return "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=" +
		f.script(t, "slow.sh", "until [ -e "+f.tmp+"/go ]; do sleep 0.02; done\n") + "\n"
}

func checkLongStart(t *testing.T, f *fixture) {
	f.unit(t, f.slow(t))
	result := make(chan error, 1)
	go func() { result <- f.Units.Start(f.ctx, f.name) }()
	f.eventually(t, "activating", func(s units.Status) bool { return s.State == units.Activating })
	select {
	case err := <-result:
		t.Fatalf("Start returned before the unit was started: %v", err)
	default:
	}
	must(t, os.WriteFile(filepath.Join(f.tmp, "go"), nil, 0o644))
	must(t, <-result)
	if status := f.status(t); status.State != units.Active {
		t.Errorf("after the start the unit is %+v", status)
	}
}

func checkAbandonedStart(t *testing.T, f *fixture) {
	f.unit(t, f.slow(t))
	ctx, cancel := context.WithCancel(f.ctx)
	result := make(chan error, 1)
	go func() { result <- f.Units.Start(ctx, f.name) }()
	f.eventually(t, "activating", func(s units.Status) bool { return s.State == units.Activating })
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Start whose context is canceled: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(f.tmp, "go"), nil, 0o644))
	f.eventually(t, "active", func(s units.Status) bool { return s.State == units.Active })
}

func checkLongStop(t *testing.T, f *fixture) {
	f.unit(t, "[Service]\nExecStart=/bin/sleep 1000\nExecStop="+
		f.script(t, "stop.sh", "until [ -e "+f.tmp+"/go ]; do sleep 0.02; done\n")+"\n")
	must(t, f.Units.Start(f.ctx, f.name))
	result := make(chan error, 1)
	go func() { result <- f.Units.Stop(f.ctx, f.name) }()
	f.eventually(t, "deactivating", func(s units.Status) bool { return s.State == units.Deactivating })
	select {
	case err := <-result:
		t.Fatalf("Stop returned before the unit had ended: %v", err)
	default:
	}
	must(t, os.WriteFile(filepath.Join(f.tmp, "go"), nil, 0o644))
	must(t, <-result)
	f.wantStatus(t, "after the stop", units.Inactive, false)
}

func checkAutoRestart(t *testing.T, f *fixture) {
	f.unit(t, "[Service]\nRestart=always\nRestartSec=50ms\nExecStart="+
		f.script(t, "once.sh", "test -e "+f.tmp+"/died || { touch "+f.tmp+"/died; exit 1; }\nexec sleep 1000\n")+"\n")
	must(t, f.Units.Start(f.ctx, f.name))
	f.eventuallyFile(t, "died", "")
	f.eventually(t, "started again", func(s units.Status) bool { return s.State == units.Active && s.PID != 0 })
}

func checkManagerRestart(t *testing.T, f *fixture) {
	f.unit(t, sleeper)
	must(t, f.Units.Enable(f.ctx, f.name))
	must(t, f.Units.Start(f.ctx, f.name))
	before := f.wantStatus(t, "before the restart", units.Active, true)
	f.RestartManager(t)
	f.eventually(t, "running on", func(s units.Status) bool { return s == before })
	must(t, f.Units.Restart(f.ctx, f.name))
	if after := f.status(t); after.State != units.Active || after.PID == before.PID {
		t.Errorf("after another restart of the unit it is %+v, before %+v", after, before)
	}
	must(t, f.Units.Disable(f.ctx, f.name))
	must(t, f.Units.Stop(f.ctx, f.name))
	f.wantStatus(t, "after the stop", units.Inactive, false)
}
