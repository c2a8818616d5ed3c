package sim

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is the work queue of a controller. Its worker gets only the requests that the simulation chooses.
type queue struct {
	limiter workqueue.TypedRateLimiter[reconcile.Request]
	give    chan reconcile.Request
	done    chan struct{}
	stop    chan struct{}

	mu      sync.Mutex
	stopped bool
	ready   map[reconcile.Request]bool
	working map[reconcile.Request]bool // True if it was added meanwhile.
	later   map[reconcile.Request]time.Time
}

var _ workqueue.TypedRateLimitingInterface[reconcile.Request] = &queue{}

func newQueue(limiter workqueue.TypedRateLimiter[reconcile.Request]) *queue {
	return &queue{
		limiter: limiter, give: make(chan reconcile.Request), done: make(chan struct{}, 1), stop: make(chan struct{}),
		ready: map[reconcile.Request]bool{}, working: map[reconcile.Request]bool{},
		later: map[reconcile.Request]time.Time{},
	}
}

func (q *queue) Add(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(r)
}

func (q *queue) addLocked(r reconcile.Request) {
	if _, busy := q.working[r]; busy {
		q.working[r] = true
		return
	}
	q.ready[r] = true
}

func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d <= 0 {
		q.addLocked(r)
		return
	}
	at := time.Now().Add(d)
	if before, ok := q.later[r]; !ok || at.Before(before) {
		q.later[r] = at
	}
}

func (q *queue) AddRateLimited(r reconcile.Request)  { q.AddAfter(r, q.limiter.When(r)) }
func (q *queue) Forget(r reconcile.Request)          { q.limiter.Forget(r) }
func (q *queue) NumRequeues(r reconcile.Request) int { return q.limiter.NumRequeues(r) }
func (q *queue) ShutDownWithDrain()                  { q.ShutDown() }
func (q *queue) Len() int                            { return len(q.due()) }
func (q *queue) Get() (r reconcile.Request, stopped bool) {
	select {
	case r = <-q.give:
		return r, false
	case <-q.stop:
		return r, true
	}
}

func (q *queue) Done(r reconcile.Request) {
	q.mu.Lock()
	if q.working[r] {
		q.ready[r] = true
	}
	delete(q.working, r)
	q.mu.Unlock()
	q.done <- struct{}{}
}

func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.stopped = true
		close(q.stop)
	}
}

func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// due returns the requests that could be worked on now, sorted.
func (q *queue) due() []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for r, at := range q.later {
		if !at.After(now) {
			delete(q.later, r)
			q.addLocked(r)
		}
	}
	return slices.SortedFunc(maps.Keys(q.ready), func(a, b reconcile.Request) int {
		return cmp.Compare(a.String(), b.String())
	})
}

// next returns the time at which the first waiting request becomes due.
func (q *queue) next() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var first time.Time
	for _, at := range q.later {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// work lets the controller work on one request, and returns when it has ended.
func (q *queue) work(r reconcile.Request) {
	q.mu.Lock()
	delete(q.ready, r)
	q.working[r] = false
	q.mu.Unlock()
	q.give <- r
	<-q.done
}
