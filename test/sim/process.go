package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"testing/synctest"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Process is a program with controllers. It is a manager.Manager, so that controllers are set up as in production, with
// the watches, predicates and mappings that they have there.
type Process struct {
	manager.Manager // Nil: methods that a simulated manager lacks panic.

	world *World
	name  string
	home  *Cluster
	setup func(*Process) error

	// The following fields are lost in a crash.
	life    int // How often it has started.
	ctx     context.Context
	cancel  context.CancelFunc
	crashed bool
	stopped []chan struct{}          // Closed when a runnable has ended.
	caches  map[*Cluster][]*simCache // The default one is the first.
	queues  []*namedQueue
	adds    []manager.Runnable
}

type namedQueue struct {
	*queue
	name string
}

var errCrashed = errors.New("the process has crashed")

// start builds everything anew, as a process does that starts.
func (p *Process) start() {
	p.life++
	p.crashed = false
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.caches, p.queues, p.adds, p.stopped = map[*Cluster][]*simCache{}, nil, nil, nil
	if err := p.setup(p); err != nil {
		p.world.fatalf("set up %s: %v", p.name, err)
	}
	for _, r := range p.adds {
		ended := make(chan struct{})
		p.stopped = append(p.stopped, ended)
		ctx := p.ctx
		go func() {
			defer close(ended)
			if err := r.Start(ctx); err != nil && ctx.Err() == nil {
				p.world.failf("%s: a runnable has ended: %v", p.name, err)
			}
		}()
	}
	synctest.Wait() // All sources have registered.
	slices.SortFunc(p.queues, func(a, b *namedQueue) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
}

// end stops the process and waits until nothing of it runs.
func (p *Process) end() {
	p.cancel()
	for _, ended := range p.stopped {
		<-ended
	}
}

// alive refuses operations of a process that has ended.
func (p *Process) alive(ctx context.Context) error {
	if p.world.isCrashed(p) {
		return errCrashed
	}
	return ctx.Err()
}

// In returns another cluster that the process reads and writes, with caches of its own.
func (p *Process) In(c *Cluster) *Connection { return &Connection{process: p, cluster: c} }

func (p *Process) cacheOf(c *Cluster) *simCache {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if p.caches[c] == nil {
		p.caches[c] = []*simCache{newCache(p, c)}
	}
	return p.caches[c][0]
}

// GetClient implements cluster.Cluster.
func (p *Process) GetClient() client.Client { return p.In(p.home).GetClient() }

// GetAPIReader implements cluster.Cluster.
func (p *Process) GetAPIReader() client.Reader { return p.In(p.home).GetAPIReader() }

// GetCache implements cluster.Cluster.
func (p *Process) GetCache() cache.Cache { return p.In(p.home).GetCache() }

// GetFieldIndexer implements cluster.Cluster.
func (p *Process) GetFieldIndexer() client.FieldIndexer { return p.GetCache() }

// GetScheme implements cluster.Cluster.
func (p *Process) GetScheme() *runtime.Scheme { return p.home.store.scheme }

// GetRESTMapper implements cluster.Cluster.
func (p *Process) GetRESTMapper() meta.RESTMapper { return p.home.mapper }

// GetLogger implements manager.Manager.
func (p *Process) GetLogger() logr.Logger { return logr.Discard() }

// GetConfig implements cluster.Cluster.
func (p *Process) GetConfig() *rest.Config {
	return &rest.Config{Host: "https://" + p.home.name + ".invalid"}
}

// GetHTTPClient implements cluster.Cluster.
func (p *Process) GetHTTPClient() *http.Client { return nil }

// Elected implements manager.Manager: the process is always the leader.
func (p *Process) Elected() <-chan struct{} { return closed }

// AddHealthzCheck implements manager.Manager.
func (p *Process) AddHealthzCheck(string, healthz.Checker) error { return nil }

// AddReadyzCheck implements manager.Manager.
func (p *Process) AddReadyzCheck(string, healthz.Checker) error { return nil }

// GetControllerOptions implements manager.Manager.
func (p *Process) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}

// GetEventRecorder implements cluster.Cluster. Events are part of the trace.
func (p *Process) GetEventRecorder(string) events.EventRecorder { return recorder{p} }

// GetEventRecorderFor implements cluster.Cluster.
func (p *Process) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// Add implements manager.Manager. Controllers get a queue of the simulation and a single worker.
func (p *Process) Add(r manager.Runnable) error {
	p.adds = append(p.adds, r)
	if _, ok := r.(controller.Controller); !ok {
		return nil
	}
	// The type of controllers is internal to controller-runtime, its fields are not.
	fields := reflect.ValueOf(r).Elem()
	name := fields.FieldByName("Name").String()
	fields.FieldByName("MaxConcurrentReconciles").SetInt(1)
	fields.FieldByName("NewQueue").Set(reflect.ValueOf(func(_ string,
		limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q := newQueue(limiter)
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		p.queues = append(p.queues, &namedQueue{q, name})
		return q
	}))
	do := fields.FieldByName("Do")
	do.Set(reflect.ValueOf(traced{p, name, do.Interface().(reconcile.Reconciler)}))
	return nil
}

// traced records the results of a reconciler, and its panics, which controller-runtime would turn into errors.
type traced struct {
	process *Process
	name    string
	inner   reconcile.Reconciler
}

func (t traced) Reconcile(ctx context.Context, r reconcile.Request) (res reconcile.Result, err error) {
	w := t.process.world
	w.tracef("%s: %s reconciles %s", t.process.name, t.name, r)
	defer func() {
		if v := recover(); v != nil {
			w.failf("%s: %s panics with %s: %v\n%s", t.process.name, t.name, r, v, debug.Stack())
		}
		switch {
		case err != nil:
			w.tracef("  = %v", err)
		case res.RequeueAfter > 0:
			w.tracef("  = again in %s", res.RequeueAfter)
		}
	}()
	return t.inner.Reconcile(ctx, r)
}

type recorder struct{ process *Process }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	if kind == corev1.EventTypeWarning {
		r.process.world.tracef("  event %s: %s", reason, fmt.Sprintf(note, args...))
	}
}

// Connection is a cluster as a process sees it. It implements cluster.Cluster.
type Connection struct {
	process *Process
	cluster *Cluster
}

// GetClient returns a client that reads from caches, like the client of a manager.
func (c *Connection) GetClient() client.Client {
	return &simClient{cluster: c.cluster, process: c.process, cache: c.process.cacheOf(c.cluster)}
}

// GetAPIReader returns a client that reads from the API server.
func (c *Connection) GetAPIReader() client.Reader { return c.Direct() }

// Direct returns a client that reads from the API server, and writes to it.
func (c *Connection) Direct() client.Client {
	return &simClient{cluster: c.cluster, process: c.process}
}

// GetCache returns the cache.
func (c *Connection) GetCache() cache.Cache { return c.process.cacheOf(c.cluster) }

// NewCache returns another cache, with views of its own, as cache.New does. Of the options, it follows the label
// selectors and the transforms in ByObject; nothing is read from it but by event handlers.
func (c *Connection) NewCache(o cache.Options) cache.Cache {
	c.process.cacheOf(c.cluster)
	out := newCache(c.process, c.cluster)
	for object, by := range o.ByObject {
		gvk, err := apiutil.GVKForObject(object, c.cluster.store.scheme)
		must(err)
		out.by[gvk] = by
	}
	w := c.process.world
	w.mu.Lock()
	defer w.mu.Unlock()
	c.process.caches[c.cluster] = append(c.process.caches[c.cluster], out)
	return out
}

// GetFieldIndexer returns the cache.
func (c *Connection) GetFieldIndexer() client.FieldIndexer { return c.GetCache() }

// GetScheme returns the scheme of the cluster.
func (c *Connection) GetScheme() *runtime.Scheme { return c.cluster.store.scheme }

// GetRESTMapper returns the kinds of the cluster.
func (c *Connection) GetRESTMapper() meta.RESTMapper { return c.cluster.mapper }

// GetConfig returns a configuration that cannot connect to anything.
func (c *Connection) GetConfig() *rest.Config {
	return &rest.Config{Host: "https://" + c.cluster.name + ".invalid"}
}

// GetHTTPClient implements cluster.Cluster.
func (c *Connection) GetHTTPClient() *http.Client { return nil }

// GetEventRecorder implements cluster.Cluster.
func (c *Connection) GetEventRecorder(name string) events.EventRecorder { return recorder{c.process} }

// GetEventRecorderFor implements cluster.Cluster.
func (c *Connection) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// Start implements cluster.Cluster.
func (c *Connection) Start(ctx context.Context) error { <-ctx.Done(); return nil }

// access does one operation of the process, with the faults that the seed has for it.
func (p *Process) access(ctx context.Context, c *Cluster, o operation, do func() error) error {
	if err := p.alive(ctx); err != nil {
		return err
	}
	if err := c.defined(o.gvk); err != nil {
		return err
	}
	w := p.world
	if o.write {
		w.mu.Lock()
		c.writes++
		w.mu.Unlock()
	}
	struck := w.faultOf(p, c.name, o)
	switch struck {
	case faultRefused:
		w.tracef("  %s %s: refused", c.name, o)
		return notDone()
	case faultConflict:
		w.tracef("  %s %s: somebody else writes before", c.name, o)
		c.store.touch(o.gvk, o.key)
	case faultOverlap:
		w.change()
	}
	before := c.store.revision()
	err := do()
	if !o.write {
		return err
	}
	switch changed := c.store.revision() != before; {
	case err != nil:
		w.tracef("  %s %s: %s", c.name, o, reason(err))
		return err
	case !changed:
		w.tracef("  %s %s: nothing changes", c.name, o)
	default:
		w.tracef("  %s %s%s", c.name, o, endings[struck])
		w.check()
	}
	return p.afterWrite(struck)
}

// Call makes a request of the process to something that is not an API server, such as a cloud, with the same faults: it
// is not done, changes happen before it, its response is lost, or the process crashes after it. The request describes
// it. The last three happen only if it writes.
func (p *Process) Call(ctx context.Context, where, request string, write bool, do func() error) error {
	if err := p.alive(ctx); err != nil {
		return err
	}
	w := p.world
	struck := w.faultOf(p, where, operation{verb: request, write: write})
	switch struck {
	case faultRefused:
		w.tracef("  %s %s: refused", where, request)
		return notDone()
	case faultOverlap:
		w.change()
	}
	if err := do(); err != nil || !write {
		if err != nil {
			w.tracef("  %s %s: %v", where, request, err)
		}
		return err
	}
	w.tracef("  %s %s%s", where, request, endings[struck])
	w.check()
	return p.afterWrite(struck)
}

// endings describe the faults that strike after a write.
var endings = map[fault]string{faultLost: ", answer lost", faultCrash: ", crash"}

// afterWrite is the result of a write that was done, with the fault that strikes after it.
func (p *Process) afterWrite(struck fault) error {
	switch struck {
	case faultLost:
		return answerLost()
	case faultCrash:
		p.world.crash(p)
		return errCrashed
	}
	return nil
}

func reason(err error) string {
	if r := apierrors.ReasonForError(err); r != "" {
		return string(r)
	}
	return err.Error()
}

func (s *store) revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}
