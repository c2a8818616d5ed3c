package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	envSeeds = "HORTUS_TEST_SEEDS" // How many seeds each simulation runs with.
	envSeed  = "HORTUS_TEST_SEED"  // The one seed to run, with all of its trace.

	// defaultSeeds keeps a simulation of a controller below 2 s of CPU time, and finds failures of one seed in ten.
	defaultSeeds = 50
	// traceLines is the number of lines shown of a failed run. The cause is rarely further back.
	traceLines = 120
	// slowness is the factor by which a third of the watches sees changes later than the others.
	slowness = 12
	// gcPercent lets the garbage collector take a tenth of the time instead of a third: simulations create many objects,
	// and keep little.
	gcPercent = 400
	// quietPasses is the number of passes without a change after which the end counts as reached.
	quietPasses = 2
)

// Run runs a simulation with many seeds. The test sets up the world and its checks. It must do the same each time, with
// random choices from World.Random only.
func Run(t *testing.T, test func(*World)) {
	t.Helper()
	RunSeeds(t, defaultSeeds, test)
}

// RunSeeds is Run with another default number of seeds, for a simulation of a controller with many requests in each
// reconciliation.
func RunSeeds(t *testing.T, seeds int, test func(*World)) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	if text := os.Getenv(envSeed); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: invalid value: %q (a number)", envSeed, text)
		}
		w := run(t, seed, test)
		w.report(t)
		t.Log(strings.Join(w.trace, "\n"))
		return
	}
	if text := os.Getenv(envSeeds); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s: invalid value: %q (a number of at least 1)", envSeeds, text)
		}
		seeds = n
	}
	for seed := range uint64(seeds) {
		w := run(t, seed, test)
		if w.report(t); t.Failed() {
			return
		}
		if seed == 0 { // A run that a seed does not repeat cannot be replayed.
			if at := differs(w.trace, run(t, seed, test).trace); at != "" {
				t.Errorf("the same seed ran differently: %s", at)
				return
			}
		}
	}
}

// differs returns the first place where two traces differ.
func differs(a, b []string) string {
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d was %q, then %q, after\n%s", i+1, x, y, strings.Join(a[max(0, i-20):i], "\n"))
		}
	}
	return ""
}

// run runs one seed, in a bubble in which time moves only when the simulation moves it.
func run(t *testing.T, seed uint64, test func(*World)) (w *World) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed)
		defer func() {
			v := recover()
			for _, p := range w.processes {
				if p.cancel != nil {
					p.end()
				}
			}
			if v != nil && v != errStop { //nolint:errorlint // It is this value or none.
				panic(v)
			}
		}()
		test(w)
	})
	return w
}

// errStop ends a run that has failed.
var errStop any = fmt.Errorf("the simulation has failed")

// World is one run of a simulation: clusters, the processes that work on them, and other events.
type World struct {
	T      *testing.T
	Random *rand.Rand // For choices of the test. Only for the goroutine of the test.

	seed      uint64
	chances   chances
	rarity    uint64 // Faults of operations are this many times rarer.
	processes []*Process
	clusters  []*Cluster
	actors    []actor
	changes   []actor
	rules     []rule

	mu       sync.Mutex
	faults   bool
	overlap  bool // Changes may happen before a write of a process.
	step     int
	trace    []string
	failures []string
	counts   map[string]int // Of operations, so that faults don't depend on the order of parallel ones.
	checking bool
}

// chances are the probabilities of faults, in percent; each seed has its own, so that some faults occur alone and
// others together.
type chances struct {
	refused, lost, conflict, crash uint64 // Of each operation.
	overlap                        uint64 // Of each write: that the next change happens before it.
	missed, idle                   int    // Of each step: that a watch skips changes; that time passes.
	stale                          uint64 // Of each list that may be older than the newest data.
}

type actor struct {
	name    string
	cluster *Cluster
	act     func(context.Context, client.Client) error
}

type rule struct {
	name  string
	check func() error
}

func newWorld(t *testing.T, seed uint64) *World {
	w := &World{T: t, Random: rand.New(rand.NewPCG(seed, 1)), seed: seed, counts: map[string]int{}, rarity: 1}
	choose := rand.New(rand.NewPCG(seed, 2))
	rate := func() uint64 { return []uint64{0, 0, 5, 20}[choose.IntN(4)] }
	w.chances = chances{
		refused: rate(), lost: rate(), conflict: rate(), crash: rate(),
		missed: []int{0, 20, 60}[choose.IntN(3)], idle: []int{2, 10, 30}[choose.IntN(3)],
	}
	w.chances.overlap = rate()
	w.chances.stale = 2 * rate()
	return w
}

// Clock is the time of the simulation. It begins at the same instant in each run.
func (w *World) Clock() clock.WithTicker { return clock.RealClock{} } // Of the bubble.

// Cluster adds an API server without any object. It has the kinds of the scheme.
func (w *World) Cluster(name string, scheme *runtime.Scheme) *Cluster {
	c := &Cluster{
		world: w, name: name, store: newStore(scheme),
		uncached: map[schema.GroupVersionKind]bool{}, missing: map[schema.GroupVersionKind]bool{},
	}
	c.mapper = &mapper{newMapper(scheme), c}
	c.Client = &simClient{cluster: c}
	w.clusters = append(w.clusters, c)
	w.actors = append(w.actors, actor{"namespaces", c, c.finishNamespaces}, actor{"garbage", c, c.collectGarbage})
	return c
}

// Process adds a program that works on a cluster. The function sets up its controllers, each time the process starts;
// it must create all of them anew, so that a crash loses their memory.
func (w *World) Process(name string, home *Cluster, setup func(*Process) error) {
	p := &Process{world: w, name: name, home: home, setup: setup}
	w.processes = append(w.processes, p)
	p.start()
}

// Actor adds an action that others repeat in a cluster, such as an extension or a kubelet. It sees all changes at once,
// and must change nothing if there is nothing to do.
func (w *World) Actor(name string, c *Cluster, act func(context.Context, client.Client) error) {
	w.actors = append(w.actors, actor{name, c, act})
}

// Change adds an action that happens once while faults happen. Changes are made in this order.
func (w *World) Change(name string, c *Cluster, change func(context.Context, client.Client) error) {
	w.changes = append(w.changes, actor{name, c, change})
}

// Overlap lets changes happen in the middle of a reconciliation, too: before one of its writes. It is for controllers
// that write one object after another.
func (w *World) Overlap() { w.overlap = true }

// Rarer makes faults of requests n times rarer. It is for controllers with so many requests in a reconciliation that
// hardly any would succeed.
func (w *World) Rarer(n int) { w.rarity = uint64(n) }

// Always adds a check that must succeed after each write, whatever has failed before.
func (w *World) Always(name string, check func() error) { w.rules = append(w.rules, rule{name, check}) }

// Faults runs a number of steps in which faults happen, and then makes the remaining changes.
func (w *World) Faults(steps int) {
	w.faults = true
	for range steps {
		w.oneStep()
		if len(w.failures) > 0 {
			panic(errStop)
		}
	}
	w.faults = false
	for len(w.changes) > 0 {
		w.change()
	}
}

// Eventually lets all caches catch up, without further faults, and works until controllers only wait. Then the check
// must succeed; time passes until it does. It fails after the given number of requests to controllers.
func (w *World) Eventually(requests int, name string, check func() error) {
	w.T.Helper()
	quiet, left := 0, requests
	for {
		w.catchUp()
		if len(w.failures) > 0 {
			panic(errStop)
		}
		if queue, request, ok := w.pick(); ok {
			if left == 0 {
				w.fatalf("%s: controllers still work after %d requests: %v", name, requests, check())
			}
			left--
			w.work(queue, request)
			continue
		}
		if w.act() {
			continue
		}
		err := check()
		if err != nil {
			quiet = 0
		} else if quiet++; quiet >= quietPasses {
			return
		}
		if !w.sleepUntilDue() {
			if err == nil {
				return
			}
			w.fatalf("%s: nothing is left to do: %v", name, err)
		}
	}
}

// Idle lets time pass, without faults; controllers work when something is due.
func (w *World) Idle(d time.Duration) {
	for end := time.Now().Add(d); ; {
		w.catchUp()
		if len(w.failures) > 0 {
			panic(errStop)
		}
		if queue, request, ok := w.pick(); ok {
			w.work(queue, request)
			continue
		}
		if w.act() {
			continue
		}
		next, ok := w.nextDue()
		if !ok || next.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		w.sleepUntilDue()
	}
}

// oneStep does one of the steps that are possible now.
func (w *World) oneStep() {
	w.step++
	n := w.Random.IntN(100)
	switch idle := w.chances.idle; {
	case n < idle:
		w.pass()
	case n < idle+8:
		w.change()
	case n < idle+18:
		w.actOnce()
	case n < idle+20 && w.chances.crash > 0:
		p := w.processes[w.Random.IntN(len(w.processes))]
		w.tracef("%s crashes", p.name)
		w.crash(p)
	case n < idle+20+(80-idle)/2:
		w.deliver()
	default:
		if queue, request, ok := w.pick(); ok {
			w.work(queue, request)
		} else {
			w.deliver()
		}
	}
	w.restart()
	w.check()
}

// pass lets time pass: until a request is due, or for a moment. No worker of a queue leaves a request that is due for
// days.
func (w *World) pass() {
	next, ok := w.nextDue()
	d := time.Duration(1+w.Random.IntN(2000)) * time.Millisecond
	if ok && w.Random.IntN(2) == 0 && time.Until(next) > 0 && !w.anythingDue() {
		d = time.Until(next)
	}
	w.tracef("time passes: %s", d)
	time.Sleep(d)
}

func (w *World) anythingDue() bool {
	for _, p := range w.processes {
		for _, q := range p.queues {
			if q.Len() > 0 {
				return true
			}
		}
	}
	return false
}

func (w *World) nextDue() (first time.Time, ok bool) {
	for _, p := range w.processes {
		for _, q := range p.queues {
			if at, some := q.next(); some && (!ok || at.Before(first)) {
				first, ok = at, true
			}
		}
	}
	return first, ok
}

func (w *World) sleepUntilDue() bool {
	next, ok := w.nextDue()
	if ok {
		w.tracef("time passes: %s", time.Until(next))
		time.Sleep(time.Until(next))
	}
	return ok
}

// change makes the next change of the test.
func (w *World) change() {
	if len(w.changes) == 0 {
		return
	}
	next := w.changes[0]
	w.changes = w.changes[1:]
	w.tracef("somebody: %s", next.name)
	if err := next.act(context.Background(), next.cluster.Client); err != nil {
		w.fatalf("%s: %v", next.name, err)
	}
	w.check()
}

func (w *World) actOnce() {
	a := w.actors[w.Random.IntN(len(w.actors))]
	w.doActor(a)
}

// act runs all actors, and reports whether they have changed anything.
func (w *World) act() (changed bool) {
	for _, a := range w.actors {
		changed = w.doActor(a) || changed
	}
	return changed
}

func (w *World) doActor(a actor) bool {
	before := w.revisions()
	if err := a.act(context.Background(), a.cluster.Client); err != nil {
		w.fatalf("%s in %s: %v", a.name, a.cluster.name, err)
	}
	if slices.Equal(before, w.revisions()) {
		return false
	}
	w.tracef("others: %s in %s", a.name, a.cluster.name)
	w.check()
	return true
}

func (w *World) revisions() (out []int64) {
	for _, c := range w.clusters {
		out = append(out, c.store.revision())
	}
	return out
}

// views returns the views that do not show the present, in the same order for the same seed.
func (w *World) views() (out []*view) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		for _, c := range w.clusters {
			for _, one := range p.caches[c] {
				var some []*view
				for _, v := range one.views {
					if v.behind() > 0 {
						some = append(some, v)
					}
				}
				slices.SortFunc(some, func(a, b *view) int {
					return strings.Compare(fmt.Sprint(a.key), fmt.Sprint(b.key))
				})
				out = append(out, some...)
			}
		}
	}
	return out
}

// deliver lets one cache see more.
func (w *World) deliver() {
	views := w.views()
	if len(views) == 0 {
		return
	}
	v := views[w.Random.IntN(len(views))]
	slow := w.draw(fmt.Sprintf("slow/%s/%v", v.cache.process.name, v.key))%3 == 0
	if slow && w.Random.IntN(slowness) > 0 {
		return
	}
	if behind := v.behind(); behind > 1 && w.Random.IntN(100) < w.chances.missed {
		n := 2 + w.Random.IntN(behind-1)
		w.tracef("%s sees %d changes of %s at once", v.cache.process.name, n, v.key.gvk.Kind)
		v.jump(n)
	} else {
		w.tracef("%s sees a change of %s", v.cache.process.name, v.key.gvk.Kind)
		v.next()
	}
	synctest.Wait() // Sources that are channels have passed the event on.
}

// catchUp lets all caches see everything.
func (w *World) catchUp() {
	w.restart()
	for views := w.views(); len(views) > 0; views = w.views() {
		for _, v := range views {
			for v.behind() > 0 {
				v.next()
			}
		}
		synctest.Wait()
	}
}

// pick chooses a request that a controller could work on.
func (w *World) pick() (*namedQueue, reconcile.Request, bool) {
	type choice struct {
		queue   *namedQueue
		request reconcile.Request
	}
	var choices []choice
	for _, p := range w.processes {
		for _, q := range p.queues {
			for _, r := range q.due() {
				choices = append(choices, choice{q, r})
			}
		}
	}
	if len(choices) == 0 {
		return nil, reconcile.Request{}, false
	}
	c := choices[w.Random.IntN(len(choices))]
	return c.queue, c.request, true
}

func (w *World) work(q *namedQueue, r reconcile.Request) {
	q.work(r)
	synctest.Wait()
	w.restart()
}

// crash ends a process: from now on it reads and writes nothing.
func (w *World) crash(p *Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.crashed = true
}

func (w *World) isCrashed(p *Process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.crashed
}

// restart starts the crashed processes.
func (w *World) restart() {
	for _, p := range w.processes {
		if w.isCrashed(p) {
			p.end()
			w.tracef("%s starts again", p.name)
			p.start()
		}
	}
}

// check fails the run if a check of Always fails.
func (w *World) check() {
	w.mu.Lock()
	if w.checking { // Another operation of the same process, which runs in parallel.
		w.mu.Unlock()
		return
	}
	w.checking = true
	w.mu.Unlock()
	for _, r := range w.rules {
		if err := r.check(); err != nil {
			w.failf("always %s: %v", r.name, err)
		}
	}
	w.mu.Lock()
	w.checking = false
	w.mu.Unlock()
}
