package policy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// confinement is a controller with a cache and an API server, which have different Pods, with the clock of the test's
// bubble. A policy allows only connections from app=a to app=b.
type confinement struct {
	*Controller
	t          *testing.T
	cache, api client.Client
	kernel     *lockedKernel
	start      time.Time
}

func withUID(uid string) podOption { return func(p *corev1.Pod) { p.UID = types.UID(uid) } }

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"} }

func newConfinement(t *testing.T, cached, only []corev1.Pod) *confinement {
	c := &confinement{t: t, kernel: &lockedKernel{fakeKernel: fakeKernel{t: t}}, start: time.Now()}
	ns, p := newNamespace("x", ""), newPolicy("x/p", "app=b", from(peers{pods("app=a")}, nil))
	c.cache = fake.NewClientBuilder().WithObjects(&ns, &p).Build()
	c.api = fake.NewClientBuilder().Build()
	for _, list := range [][]corev1.Pod{cached, only} {
		for i := range list {
			c.create(c.api, list[i])
		}
	}
	for i := range cached {
		c.create(c.cache, cached[i])
	}
	c.Controller = &Controller{
		Client: c.cache, API: c.api, Clock: clock.RealClock{}, Kernel: c.kernel, Node: self,
		woken:   make(chan event.GenericEvent, 1),
		Metrics: NewMetrics(prometheus.NewRegistry(), func() (Refused, error) { return Refused{}, nil }),
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c.pass()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.woken:
				_, _ = c.Reconcile(ctx, reconcile.Request{})
			}
		}
	}()
	return c
}

func (c *confinement) create(cl client.Client, p corev1.Pod) {
	c.t.Helper()
	if err := cl.Create(c.t.Context(), &p); err != nil {
		c.t.Fatal(err)
	}
}

// pass makes a pass, like an event.
func (c *confinement) pass() {
	c.t.Helper()
	if _, err := c.Reconcile(c.t.Context(), reconcile.Request{}); err != nil {
		c.t.Fatal(err)
	}
}

// refuse makes the kernel fail; nil ends that.
func (c *confinement) refuse(err error) {
	c.kernel.Lock()
	defer c.kernel.Unlock()
	c.kernel.failChange, c.kernel.failReplace = err, err
}

func sandboxOf(container, name, uid, ip string) hook.Sandbox {
	return hook.Sandbox{ContainerID: container, Namespace: "x", Name: name, UID: uid, Addresses: []netip.Addr{address(ip)}}
}

// confine runs Confine with the limit of the server.
func (c *confinement) confine(s hook.Sandbox) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	return c.Confine(ctx, s)
}

// expect checks whether a packet passes, and the total time so far.
func (c *confinement) expect(source, destination string, passes bool, after time.Duration) {
	c.t.Helper()
	if got := c.kernel.passes(source, destination); got != passes {
		c.t.Errorf("a packet from %s to %s passes: %t, want %t", source, destination, got, passes)
	}
	if got := time.Since(c.start); got != after {
		c.t.Errorf("that took %v, want %v", got, after)
	}
}

func TestConfine(t *testing.T) {
	b := newPod("x/b", "app=b", "", withUID("1"))
	const stranger = "10.0.0.9"
	for name, tc := range map[string]struct {
		cached, only []corev1.Pod
		sandbox      hook.Sandbox
		wantErr      string // Part of it.
		after        time.Duration
		open         bool // A stranger reaches the address afterwards.
	}{
		"a pod in the cache has its rules at once": {
			cached: []corev1.Pod{b}, sandbox: sandboxOf("c", "b", "1", "10.0.0.2"),
		},
		"without UID the name decides": {
			cached: []corev1.Pod{b}, sandbox: sandboxOf("c", "b", "", "10.0.0.2"),
		},
		"a static pod has another UID": {
			cached:  []corev1.Pod{newPod("x/b", "app=b", "", withUID("2"), mirror)},
			sandbox: sandboxOf("c", "b", "1", "10.0.0.2"),
		},
		"an address in the status of another pod": {
			cached:  []corev1.Pod{b, newPod("x/old", "app=c", "10.0.0.2", createdAt(9))},
			sandbox: sandboxOf("c", "b", "1", "10.0.0.2"),
		},
		"a pod that no policy selects": {
			cached: []corev1.Pod{newPod("x/c", "app=c", "")}, sandbox: sandboxOf("c", "c", "", "10.0.0.2"), open: true,
		},
		"a pod that is not in the cache yet is read from the API server": {
			only: []corev1.Pod{b}, sandbox: sandboxOf("c", "b", "1", "10.0.0.2"), after: readAfter,
		},
		"a predecessor of the same name in the cache does not count": {
			cached: []corev1.Pod{b}, sandbox: sandboxOf("c", "b", "9", "10.0.0.2"),
			wantErr: `the API server has one with UID "1"`, after: 10 * time.Second, open: true,
		},
		"a pod that does not exist": {
			sandbox: sandboxOf("c", "b", "1", "10.0.0.2"), wantErr: `"b" not found`, after: 10 * time.Second, open: true,
		},
		"a pod that has ended": {
			only:    []corev1.Pod{newPod("x/b", "app=b", "", withUID("1"), inPhase(corev1.PodFailed))},
			sandbox: sandboxOf("c", "b", "1", "10.0.0.2"), wantErr: "phase Failed", after: 10 * time.Second, open: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConfinement(t, tc.cached, tc.only)
				err := c.confine(tc.sandbox)
				if tc.wantErr == "" && err != nil || tc.wantErr != "" &&
					(err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
					t.Errorf("error %v, want one about %q", err, tc.wantErr)
				}
				c.expect(stranger, "10.0.0.2", tc.open, tc.after)
				c.sandboxes.mu.Lock()
				defer c.sandboxes.mu.Unlock()
				if got := len(c.sandboxes.list) > 0; got != (tc.wantErr == "") {
					t.Errorf("the sandbox is kept: %t", got)
				}
			})
		})
	}
}

// TestConfinedPodIsAPeer: a new pod can connect at once to one that allows it by its labels. Failures of this made
// control planes restart.
func TestConfinedPodIsAPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfinement(t, []corev1.Pod{newPod("x/b", "app=b", "10.0.0.2"), newPod("x/a", "app=a", "")}, nil)
		c.expect("10.0.0.1", "10.0.0.2", false, 0)
		if err := c.confine(sandboxOf("c", "a", "", "10.0.0.1")); err != nil {
			t.Fatal(err)
		}
		c.expect("10.0.0.1", "10.0.0.2", true, 0)
	})
}

func TestSandboxesEnd(t *testing.T) {
	b := newPod("x/b", "app=b", "", withUID("1"))
	const stranger = "10.0.0.9"
	confined := func(t *testing.T, cached, only []corev1.Pod) *confinement {
		c := newConfinement(t, cached, only)
		if err := c.confine(sandboxOf("c", "b", "1", "10.0.0.2")); err != nil {
			t.Fatal(err)
		}
		c.start = time.Now()
		c.expect(stranger, "10.0.0.2", false, 0)
		return c
	}
	for name, tc := range map[string]struct {
		change func(*confinement)
		open   bool // A stranger reaches the address afterwards.
	}{
		"when the runtime removes the network": {func(c *confinement) { c.Release(hook.Sandbox{ContainerID: "c"}) }, true},
		"not when it removes one that the pod had before": {
			func(c *confinement) { c.Release(hook.Sandbox{ContainerID: "before"}) }, false,
		},
		"when the Pod is gone": {func(c *confinement) {
			if err := c.cache.Delete(c.t.Context(), b.DeepCopy()); err != nil {
				c.t.Fatal(err)
			}
		}, true},
		"when the Pod has ended": {func(c *confinement) {
			ended := b.DeepCopy()
			if err := c.cache.Get(c.t.Context(), client.ObjectKeyFromObject(&b), ended); err != nil {
				c.t.Fatal(err)
			}
			ended.Status.Phase = corev1.PodSucceeded
			if err := c.cache.Status().Update(c.t.Context(), ended); err != nil {
				c.t.Fatal(err)
			}
		}, true},
		"when the pod gets another network": {func(c *confinement) {
			if err := c.confine(sandboxOf("c2", "b", "1", "10.0.0.3")); err != nil {
				c.t.Fatal(err)
			}
		}, true},
		"when another pod gets the address": {func(c *confinement) {
			c.create(c.cache, newPod("x/c", "app=c", ""))
			if err := c.confine(sandboxOf("c2", "c", "", "10.0.0.2")); err != nil {
				c.t.Fatal(err)
			}
		}, true},
		"not when the status has another address": {func(c *confinement) {
			late := b.DeepCopy()
			if err := c.cache.Get(c.t.Context(), client.ObjectKeyFromObject(&b), late); err != nil {
				c.t.Fatal(err)
			}
			late.Status.PodIP = "10.0.0.77"
			if err := c.cache.Status().Update(c.t.Context(), late); err != nil {
				c.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := confined(t, []corev1.Pod{b}, nil)
				tc.change(c)
				time.Sleep(minInterval)
				c.pass()
				c.expect(stranger, "10.0.0.2", tc.open, minInterval)
			})
		})
	}
	t.Run("not because the cache is stale", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := confined(t, nil, []corev1.Pod{b})
			time.Sleep(minInterval)
			c.pass()
			c.expect(stranger, "10.0.0.2", false, minInterval)
			c.create(c.cache, b)
			time.Sleep(minInterval)
			c.pass()
			c.expect(stranger, "10.0.0.2", false, 2*minInterval)
			if err := c.cache.Delete(t.Context(), b.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(minInterval)
			c.pass()
			c.expect(stranger, "10.0.0.2", true, 3*minInterval)
		})
	})
}

// TestConfineWaitsForTheKernel: Confine returns only after the kernel has accepted the rules.
func TestConfineWaitsForTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfinement(t, []corev1.Pod{newPod("x/b", "app=b", "")}, nil)
		c.refuse(errors.New("no memory"))
		result := make(chan error, 1)
		go func() { result <- c.confine(sandboxOf("c", "b", "", "10.0.0.2")) }()
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("answered without rules: %v", err)
		default:
		}
		c.refuse(nil)
		c.pass() // The workqueue retries after an error.
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		c.expect("10.0.0.9", "10.0.0.2", false, 0)

		c.refuse(errors.New("no memory"))
		err := c.confine(sandboxOf("c", "b", "", "10.0.0.3"))
		if err == nil || !errors.Is(err, errPending) {
			t.Errorf("error %v, want %v", err, errPending)
		}
	})
}

// TestManyPodsShareAPass starts a node's pods at once, half of them before their Pods arrive.
func TestManyPodsShareAPass(t *testing.T) {
	const number = 100
	synctest.Test(t, func(t *testing.T) {
		var cached []corev1.Pod
		for i := range number / 2 {
			cached = append(cached, newPod(fmt.Sprintf("x/p%d", i), "app=b", ""))
		}
		c := newConfinement(t, cached, nil)
		results := make(chan error, number)
		c.refuse(errors.New("busy")) // Until all requests have arrived.
		for i := range number {
			ip := fmt.Sprintf("10.0.0.%d", i+1)
			go func() { results <- c.confine(sandboxOf(ip, fmt.Sprintf("p%d", i), "", ip)) }()
		}
		synctest.Wait()
		c.refuse(nil)
		c.pass()
		for range number / 2 {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := number / 2; i < number; i++ {
			c.create(c.cache, newPod(fmt.Sprintf("x/p%d", i), "app=b", ""))
		}
		c.pass()
		for range number / 2 {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		if got := c.kernel.writes(); got > 3 { // The first rules, and one pass for each half.
			t.Errorf("%d writes for %d pods", got, number)
		}
		for i := range number {
			if c.kernel.passes("10.0.1.1", fmt.Sprintf("10.0.0.%d", i+1)) {
				t.Errorf("pod %d is not confined", i)
			}
		}
	})
}
