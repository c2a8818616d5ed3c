package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// readAfter is the wait for a Pod to arrive by the watch before it is read from the API server, and between two such
// reads. Watches are usually a few milliseconds behind.
const readAfter = 2 * time.Second

// sandboxes are the networks of the node's pods that the container runtime has reported and that still exist. The zero
// value is empty. It is safe for concurrent use.
type sandboxes struct {
	mu   sync.Mutex
	list []*sandbox // At most one per Pod and per address.
}

type sandbox struct {
	hook.Sandbox
	pod    *corev1.Pod   // What the API server returned while the cache has not had the Pod.
	cached bool          // The cache has had the Pod.
	done   chan struct{} // Closed when the rules are in force, or when err is set.
	err    error
}

func (s *sandbox) finished() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// end answers the request for a sandbox. The caller has the lock.
func (s *sandbox) end(err error) {
	if !s.finished() {
		s.err = err
		close(s.done)
	}
}

// remove forgets sandboxes. The caller has the lock.
func (l *sandboxes) remove(why error, which func(*sandbox) bool) {
	l.list = slices.DeleteFunc(l.list, func(s *sandbox) bool {
		gone := which(s)
		if gone {
			s.end(why)
		}
		return gone
	})
}

var (
	errReplaced = errors.New("the pod or one of its addresses has got another network")
	errReleased = errors.New("the network of the pod has been removed")
	errGone     = errors.New("the Pod has been deleted or has ended")
	errPending  = errors.New("the rules are not in force yet")
)

// add adds a sandbox. Other sandboxes that claim its pod or its addresses no longer exist.
func (l *sandboxes) add(s hook.Sandbox) *sandbox {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(errReplaced, func(other *sandbox) bool {
		return other.ContainerID == s.ContainerID || other.Namespace == s.Namespace && other.Name == s.Name ||
			slices.ContainsFunc(other.Addresses, func(a netip.Addr) bool { return slices.Contains(s.Addresses, a) })
	})
	added := &sandbox{Sandbox: s, done: make(chan struct{})}
	l.list = append(l.list, added)
	return added
}

// release forgets the sandbox of a container.
func (l *sandboxes) release(containerID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(errReleased, func(s *sandbox) bool { return s.ContainerID == containerID })
}

// abandon forgets a sandbox whose request was not answered in time.
func (l *sandboxes) abandon(s *sandbox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(errReleased, func(other *sandbox) bool { return other == s && !s.finished() })
}

// provide supplies the Pod of a sandbox as the API server has it.
func (l *sandboxes) provide(s *sandbox, p *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !s.cached {
		s.pod = p
	}
}

// waiting reports whether a pass would answer a request: has says whether the cache has the sandbox's Pod.
func (l *sandboxes) waiting(has func(hook.Sandbox) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(s *sandbox) bool { return !s.finished() && (s.pod != nil || has(s.Sandbox)) })
}

// has reports whether there is a sandbox of the Pod's name.
func (l *sandboxes) has(pod client.ObjectKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(s *sandbox) bool { return s.Namespace == pod.Namespace && s.Name == pod.Name })
}

// match finds the Pods of sandboxes, among those of the cache or as the API server returned them, and adds both to the
// observed objects. Sandboxes whose Pod was in the cache and is there no longer are forgotten. The function returned
// answers the requests for all that have a Pod.
func (l *sandboxes) match(o *Observed) (answer func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return func() {}
	}
	own := map[client.ObjectKey]*corev1.Pod{}
	for i := range o.Pods {
		if p := &o.Pods[i]; p.Spec.NodeName == o.Node && takesPart(p) {
			own[client.ObjectKeyFromObject(p)] = p
		}
	}
	var matched []*sandbox
	l.remove(errGone, func(s *sandbox) bool {
		p := own[client.ObjectKey{Namespace: s.Namespace, Name: s.Name}]
		switch {
		case p != nil && matches(s.Sandbox, p):
			s.cached, s.pod = true, nil
		case s.cached:
			return true
		case s.pod != nil:
			o.Pods = append(o.Pods, *s.pod)
		default:
			return false
		}
		o.Sandboxes = append(o.Sandboxes, s.Sandbox)
		matched = append(matched, s)
		return false
	})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, s := range matched {
			s.end(nil)
		}
	}
}

// Confine applies the rules of the pod that a sandbox belongs to and returns once they are in force. It fails when ctx
// ends before, and if the pod has ended. The pod keeps the addresses until Release, until another pod gets them, or
// until the Pod is gone or has ended. Calls may be concurrent; one pass is enough for several.
func (c *Controller) Confine(ctx context.Context, network hook.Sandbox) (err error) {
	start := c.Clock.Now()
	defer func() { c.Metrics.confined(c.Clock.Since(start), err) }()
	s := c.sandboxes.add(network)
	c.wake()
	timer := c.Clock.NewTimer(readAfter)
	defer timer.Stop()
	problem := errPending
	for {
		select {
		case <-s.done:
			return s.err
		case <-ctx.Done():
			c.sandboxes.abandon(s)
			return fmt.Errorf("pod %s/%s with UID %q: %w", s.Namespace, s.Name, s.UID, problem)
		case <-timer.C():
			timer.Reset(readAfter)
			if ctx.Err() == nil { // After the deadline the error of the last attempt is more specific.
				problem = c.provide(ctx, s)
			}
		}
	}
}

// provide reads the Pod of a sandbox from the API server, in case the watch is late. It returns the reason why the
// request waits.
func (c *Controller) provide(ctx context.Context, s *sandbox) error {
	p := &corev1.Pod{}
	switch err := c.API.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, p); {
	case err != nil:
		return fmt.Errorf("read from API server: %w", err)
	case !matches(s.Sandbox, p):
		return fmt.Errorf("the API server has one with UID %q", p.UID)
	case !takesPart(p):
		return fmt.Errorf("it has no network of its own, or has ended: phase %s", p.Status.Phase)
	}
	c.sandboxes.provide(s, slimPod(p, c.Node))
	c.wake()
	return errPending
}

// Release forgets the sandbox of a container, whose network is being removed.
func (c *Controller) Release(network hook.Sandbox) {
	c.sandboxes.release(network.ContainerID)
	c.wake()
}

// wake requests a pass. One pending event is enough.
func (c *Controller) wake() {
	select {
	case c.woken <- event.GenericEvent{Object: &corev1.Node{}}:
	default:
	}
}
