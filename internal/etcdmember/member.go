package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/etcdmember/fence"
)

const (
	// watchPeriod is the interval of checks for changes of the configuration. A check costs a few stat calls.
	watchPeriod = time.Second
	// readyPeriod and readyPeriodMax bound the interval at which the readiness of a starting etcd is probed.
	readyPeriod, readyPeriodMax = 10 * time.Millisecond, 250 * time.Millisecond
	// probeTimeout bounds one probe.
	probeTimeout = 2 * time.Second
	// readinessTimeout bounds a kubelet's readiness probe, which this process forwards: the kubelet waits 5 s for the
	// response.
	readinessTimeout = 4 * time.Second
	// pauseMin and pauseMax are the pauses after the second and later failures, doubled each time.
	pauseMin, pauseMax = 500 * time.Millisecond, 30 * time.Second
	// settled is how long etcd has to run for the next failure to count as the first one.
	settled = time.Minute
)

// Member runs one etcd.
type Member struct {
	// Program is etcd, Args its arguments that never change while this process runs.
	Program string
	Args    []string
	DataDir string
	// Configuration is the part of the configuration that may change.
	Configuration configuration.Source
	// MetricsURL is the URL at which etcd serves /readyz and /livez in plain text. Only this process reaches it, since
	// etcd serves its metrics there as well.
	MetricsURL string
	// ClientAddress is the address on which etcd listens for clients, ForwardAddress a second one for clients that
	// connected while etcd was down. Without them such clients are refused.
	ClientAddress, ForwardAddress string
	// Prepare makes the data directory ready and returns further arguments for etcd; nil if nothing has to be done.
	Prepare func(context.Context) (args []string, err error)
	// Settle runs while etcd starts, until etcd is ready; nil if nothing has to be done.
	Settle func(context.Context)
	// Turn is called before a restart for a changed configuration, and end after it; nil if etcd has one member.
	Turn func(context.Context) (end func(), err error)
	// Guard decides whether etcd may run; nil means that it always may.
	Guard *fence.Guard
	// Superseded is called, once, when etcd must never run again.
	Superseded func(reason string)
	// Healthy is called whenever etcd has become ready.
	Healthy func()
	// Started is called, once, when etcd has become ready for the first time.
	Started func()
	// Reloaded is called when certificates have changed.
	Reloaded func()

	Clock   clock.WithTicker
	Log     logr.Logger
	Metrics *Metrics // Nil counts nothing.

	prepared sync.Once
	// failure is the reason why etcd did not run the last time; empty as soon as it is ready.
	failure string
	holder  holder
	lock    *os.File
	probes  http.Client

	mu     sync.Mutex
	status etcdbackup.Etcd
	// since is the time of the last change of the state.
	since time.Time
}

func (m *Member) init() {
	m.prepared.Do(func() {
		m.holder = holder{address: m.ClientAddress, target: m.ForwardAddress}
		m.probes = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	})
}

// Run runs etcd until ctx ends, and returns after the end of etcd.
func (m *Member) Run(ctx context.Context) error {
	m.init()
	defer m.holder.drop()
	var err error
	m.lock, err = lockDataDir(ctx, m.DataDir, func() {
		m.set(etcdbackup.EtcdPreparing, "another etcd uses the data directory")
	})
	if err != nil {
		return nil //nolint:nilerr // It has been stopped while it waited.
	}
	defer m.lock.Close()
	defer m.set(etcdbackup.EtcdStopped, "")
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if v := m.decision().Verdict; v == fence.Superseded || v == fence.Fenced {
			m.awaitPermission(ctx)
			continue
		}
		began := m.Clock.Now()
		err := m.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, errNotPermitted) {
			m.awaitPermission(ctx) // Then the data directory and the store are checked again.
			continue
		}
		if m.Clock.Since(began) > settled {
			pause = 0
		}
		if errors.Is(err, ErrWaiting) {
			pause = waitingPause
		}
		m.Log.Info("Etcd does not run, trying again", "error", err.Error(), "pause", pause.String())
		m.failure = err.Error() + lackOfSpace(m.DataDir, logSegment)
		m.set(etcdbackup.EtcdFailing, m.failure)
		select {
		case <-ctx.Done():
		case <-m.Clock.After(pause):
		}
		pause = min(max(2*pause, pauseMin), pauseMax)
	}
	return nil
}

// logSegment is the space that etcd needs for the next part of its log, in bytes.
const logSegment = 64 << 20

// lackOfSpace returns a message if the disk of a data directory has less than the wanted bytes left, which may be why
// etcd does not run; etcd itself reports that only in its log. Empty if there is enough space, or if that is not known.
func lackOfSpace(dataDir string, wanted uint64) string {
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(dataDir), &disk); err != nil {
		return ""
	}
	free := disk.Bavail * uint64(disk.Bsize)
	if free >= wanted {
		return ""
	}
	return fmt.Sprintf("; no space left on the disk of %s: %d MiB are free, etcd needs %d MiB for its log; enlarge the volume or make room",
		dataDir, free>>20, wanted>>20)
}

// ErrWaiting means that another member has to act first. The next attempt follows after waitingPause.
var ErrWaiting = errors.New("waiting for other members of etcd")

// waitingPause is the pause after ErrWaiting.
const waitingPause = time.Second

// errNotPermitted means that etcd must not run now.
var errNotPermitted = errors.New("etcd is not permitted to run")

func (m *Member) decision() fence.Decision {
	if m.Guard == nil {
		return fence.Decision{Verdict: fence.Run}
	}
	return m.Guard.Decision()
}

// changed has an element when the decision may have changed.
func (m *Member) changed() <-chan struct{} {
	if m.Guard == nil {
		return nil
	}
	return m.Guard.Changed()
}

var waitingStates = map[fence.Verdict]etcdbackup.EtcdState{
	fence.Wait: etcdbackup.EtcdWaiting, fence.Fenced: etcdbackup.EtcdFenced, fence.Superseded: etcdbackup.EtcdSuperseded,
}

// awaitPermission returns when etcd may run, or ctx has ended.
func (m *Member) awaitPermission(ctx context.Context) {
	var said fence.Verdict
	for ctx.Err() == nil {
		d := m.decision()
		if d.Verdict == fence.Run {
			return
		}
		m.set(waitingStates[d.Verdict], d.Reason)
		if d.Verdict != said {
			m.Log.Info("Etcd may not run", "verdict", d.Verdict, "reason", d.Reason)
		}
		said = d.Verdict
		if d.Verdict != fence.Wait {
			m.holder.drop() // Etcd will not run soon.
		}
		if d.Verdict == fence.Superseded && m.Superseded != nil {
			m.Superseded(d.Reason)
			m.Superseded = nil
		}
		select {
		case <-ctx.Done():
		case <-m.changed():
		case <-m.Clock.After(watchPeriod):
		}
	}
}

// once makes the data directory ready and runs etcd, with restarts for changed configurations, until it fails or ctx
// ends.
func (m *Member) once(ctx context.Context) error {
	if err := m.holder.open(); err != nil {
		return err
	}
	m.set(etcdbackup.EtcdPreparing, m.failure)
	var args []string
	if m.Prepare != nil {
		var err error
		if args, err = m.Prepare(ctx); err != nil {
			return err
		}
	}
	end := func() {} // Of the turn.
	defer func() { end() }()
	for {
		if m.decision().Verdict != fence.Run {
			return errNotPermitted
		}
		running, err := m.Configuration.Read()
		if err != nil {
			return err
		}
		ready := func() {
			end()
			end = func() {}
		}
		end, err = m.serve(ctx, running, args, ready)
		m.Metrics.ended(ctx, err, m.decision().Verdict)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func noTurn() {}

// serve runs etcd with a configuration, and calls ready. For a restart with another configuration it returns the
// function that ends its turn. No error means such a restart, or that ctx has ended.
func (m *Member) serve(
	ctx context.Context, running configuration.Configuration, args []string, ready func(),
) (end func(), err error) {
	m.set(etcdbackup.EtcdStarting, m.failure)
	p, err := startProcess(m.Program, m.args(running, args), m.lock)
	if err != nil {
		return noTurn, err
	}
	defer p.kill()
	settling, stop := context.WithCancel(ctx)
	defer stop()
	if m.Settle != nil {
		go m.Settle(settling)
	}
	m.mu.Lock()
	m.status.Starts++
	m.mu.Unlock()
	m.Metrics.started()
	if err := m.awaitReady(ctx, p); err != nil || ctx.Err() != nil {
		return noTurn, err
	}
	m.holder.release() // Before the end of the turn, which is written to etcd, too.
	ready()
	if m.Healthy != nil {
		m.Healthy()
	}
	m.Log.Info("Etcd is ready", "after", m.Clock.Since(m.since).String(), "configuration", running.Checksum())
	m.ready(running)
	return m.watch(ctx, p, running)
}

// turn is the answer to the request for a restart.
type turn struct {
	end func()
	err error
}

// watch returns when etcd has to end, or has ended, as serve does.
func (m *Member) watch(ctx context.Context, p *process, running configuration.Configuration) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := m.Clock.NewTicker(watchPeriod)
	defer tick.Stop()
	var turns chan turn // Not nil while a turn is waited for.
	defer func() {
		if turns != nil { // It was given up.
			cancel()
			if t := <-turns; t.err == nil {
				t.end()
			}
		}
	}()
	stamp := ""
	for {
		d := m.decision()
		if d.Verdict != fence.Run {
			return noTurn, errNotPermitted
		}
		var expired <-chan time.Time
		if left := d.Until - m.now(); d.Until > 0 && left < watchPeriod {
			expired = m.Clock.After(left) // To stop in time.
		}
		select {
		case <-ctx.Done():
			return noTurn, nil
		case <-p.ended:
			return noTurn, fmt.Errorf("etcd has ended: %w", orUnknown(p.err))
		case t := <-turns:
			turns = nil
			if t.err == nil {
				m.Log.Info("Restarting etcd with its new configuration")
				return t.end, m.holder.open()
			}
			m.Log.Info("Etcd cannot be restarted yet", "error", t.err.Error())
			stamp = "" // Tried again with the next tick.
			continue
		case <-m.changed():
			continue
		case <-expired:
			continue
		case <-tick.C():
		}
		now, err := m.Configuration.Stamp()
		if err != nil || now == stamp || turns != nil {
			continue // A Secret that is being replaced is there again with the next tick.
		}
		wanted, err := m.Configuration.Read()
		if err != nil {
			continue
		}
		stamp = now
		switch change, what := configuration.Compare(running, wanted); change {
		case configuration.Reload:
			running = wanted
			m.Log.Info("Etcd uses new certificates", "changed", what)
			m.ready(running)
		case configuration.Restart:
			m.Log.Info("Etcd has to be restarted", "changed", what)
			if m.Reloaded != nil {
				m.Reloaded() // Other members may already run with the new configuration.
			}
			if m.Turn == nil {
				return noTurn, m.holder.open()
			}
			turns = make(chan turn, 1)
			go func(to chan<- turn) {
				end, err := m.Turn(ctx)
				to <- turn{end, err}
			}(turns)
		}
	}
}

func (m *Member) now() time.Duration {
	if m.Guard == nil {
		return 0
	}
	return m.Guard.Now()
}

// ready records the configuration that etcd runs with.
func (m *Member) ready(running configuration.Configuration) {
	if m.Reloaded != nil {
		m.Reloaded()
	}
	m.failure = ""
	m.set(etcdbackup.EtcdRunning, "")
	m.mu.Lock()
	m.status.Configuration = running.Checksum()
	m.mu.Unlock()
	if m.Started != nil {
		m.Started()
		m.Started = nil
	}
}

func (m *Member) args(c configuration.Configuration, more []string) []string {
	args := slices.Concat(m.Args, more)
	if m.ClientAddress != "" {
		args = append(args, "--socket-reuse-port=true")
	}
	return append(args, c.Args()...)
}

// awaitReady waits until etcd answers requests.
func (m *Member) awaitReady(ctx context.Context, p *process) error {
	pause := readyPeriod
	for {
		if m.decision().Verdict != fence.Run {
			return errNotPermitted
		}
		if m.probe(ctx, "/readyz") == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.ended:
			return fmt.Errorf("etcd has ended before it was ready: %w", orUnknown(p.err))
		case <-m.Clock.After(pause):
		}
		if m.Clock.Since(m.since) > time.Second {
			pause = readyPeriodMax
		}
	}
}

func (m *Member) probe(ctx context.Context, path string) error { return m.get(ctx, path, probeTimeout) }

func (m *Member) get(ctx context.Context, path string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.MetricsURL+path, nil)
	if err != nil {
		return fmt.Errorf("query etcd: %w", err)
	}
	answer, err := m.probes.Do(request)
	if err != nil {
		return fmt.Errorf("query etcd: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("query etcd: %s answered %s", path, answer.Status)
	}
	return nil
}

// Live returns an error if etcd should answer and does not.
func (m *Member) Live(ctx context.Context) error {
	m.mu.Lock()
	running := m.status.State == etcdbackup.EtcdRunning
	m.mu.Unlock()
	if !running {
		return nil
	}
	return m.probe(ctx, "/livez")
}

// Ready returns an error if etcd does not serve requests, for whatever reason.
func (m *Member) Ready(ctx context.Context) error {
	m.init()
	return m.get(ctx, "/readyz", readinessTimeout)
}

// Status of etcd.
func (m *Member) Status() etcdbackup.Etcd {
	m.mu.Lock()
	s := m.status
	m.mu.Unlock()
	if m.Guard != nil {
		owner := m.Guard.Owner()
		s.Epoch, s.Holder = owner.Epoch, owner.Holder
	}
	return s
}

// Found records the state of the data directory before etcd is started.
func (m *Member) Found(data string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Data = data
}

// Restored records the point that the data directory was restored to.
func (m *Member) Restored(r etcdbackup.Restored) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Restored = &r
}

// StandBy records that Run was not called yet, and the problem that prevents it, if any. Clients wait from now on.
func (m *Member) StandBy(problem string) error {
	m.init()
	m.set(etcdbackup.EtcdStandby, problem)
	return m.holder.open()
}

func (m *Member) set(state etcdbackup.EtcdState, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State != state {
		m.since = m.Clock.Now()
	}
	m.status.State, m.status.Message = state, message
	if state == etcdbackup.EtcdStarting {
		m.status.Data = "fine" // A started etcd has data.
	}
	if state != etcdbackup.EtcdRunning {
		m.status.Configuration = ""
	}
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
