package policy

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/prometheus/client_golang/prometheus"

	"hortus.dev/hortus/local/provider/networkagent/hook"
	"hortus.dev/hortus/test/env"
)

// lockedKernel is a fakeKernel that a test reads while a controller writes.
type lockedKernel struct {
	sync.Mutex
	fakeKernel
}

func (k *lockedKernel) Replace(r Ruleset) error {
	k.Lock()
	defer k.Unlock()
	return k.fakeKernel.Replace(r)
}

func (k *lockedKernel) Apply(c Change) error {
	k.Lock()
	defer k.Unlock()
	return k.fakeKernel.Apply(c)
}

func (k *lockedKernel) passes(source, destination string) bool {
	k.Lock()
	defer k.Unlock()
	return passes(k.rules, packet{source: address(source), destination: address(destination), protocol: TCP, port: 80})
}

func (k *lockedKernel) writes() int {
	k.Lock()
	defer k.Unlock()
	return k.replaced + k.changed
}

// TestControllerOnAPIServer runs the controller with its caches against a real API server, and with a kernel in memory.
func TestControllerOnAPIServer(t *testing.T) {
	e := env.Start(t)
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme: e.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: CacheOptions(self)},
	})
	if err != nil {
		t.Fatal(err)
	}
	kernel := &lockedKernel{fakeKernel: fakeKernel{t: t}}
	c := &Controller{
		Client: mgr.GetClient(), API: mgr.GetAPIReader(), Clock: clock.RealClock{}, Kernel: kernel, Node: self,
		Refused: []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16")},
		Metrics: NewMetrics(prometheus.NewRegistry(), func() (Refused, error) { return Refused{}, nil }),
	}
	if err := c.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run manager: %v", err)
		}
	})
	env.Eventually(t, "rules are applied", func() (bool, error) { return c.Ready(nil) == nil, nil })

	namespace := e.Namespace(t, nil).Name
	start := func(name, labels, ip string, opts ...podOption) *corev1.Pod {
		t.Helper()
		p := newPod(namespace+"/"+name, labels, ip, opts...)
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "main", Image: "main"})
		status := p.Status
		if err := e.Client.Create(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		p.Status = status
		if err := e.Client.Status().Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	a := start("a", "app=a", "10.0.0.1")
	b := start("b", "app=b", "10.0.0.2")
	start("host", "app=b", "10.250.0.2", hostNetwork)
	p := newPolicy(namespace+"/p", "app=b", from(peers{pods("app=a")}, nil))
	if err := e.Client.Create(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the policy is applied", func() (bool, error) {
		return kernel.passes("10.0.0.1", "10.0.0.2") && !kernel.passes("10.0.0.3", "10.0.0.2"), nil
	})
	if !kernel.passes("10.0.0.3", "10.250.0.2") {
		t.Error("a pod in the network of its node is restricted")
	}

	a.Labels = labelsOf("app=other")
	if err := e.Client.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the label counts", func() (bool, error) { return !kernel.passes("10.0.0.1", "10.0.0.2"), nil })

	// The first two changes do not matter. Once the third has arrived, so have they.
	writes := kernel.writes()
	b.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := e.Client.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	start("pending", "app=b", "")
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
	if err := e.Client.Update(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the other policy is applied",
		func() (bool, error) { return kernel.passes("10.0.0.3", "10.0.0.2"), nil })
	if got := kernel.writes() - writes; got != 1 {
		t.Errorf("%d writes, want 1", got)
	}

	// Confine applies the rules of pods whose status has no address yet, whether they are in the cache already or arrive
	// later.
	p.Spec.Ingress = nil
	if err := e.Client.Update(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
	results := make(chan error)
	for name, ip := range map[string]string{"pending": "10.0.0.5", "later": "10.0.0.6"} {
		go func() {
			results <- c.Confine(t.Context(), hook.Sandbox{
				ContainerID: name, Namespace: namespace, Name: name, Addresses: []netip.Addr{address(ip)},
			})
		}()
	}
	start("later", "app=b", "")
	for range 2 {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	for _, ip := range []string{"10.0.0.5", "10.0.0.6"} {
		if kernel.passes("10.0.0.3", ip) {
			t.Errorf("a packet to %s passes", ip)
		}
	}
	for _, name := range []string{"pending", "later"} {
		c.Release(hook.Sandbox{ContainerID: name})
	}
	env.Eventually(t, "the addresses are released", func() (bool, error) {
		return kernel.passes("10.0.0.3", "10.0.0.5") && kernel.passes("10.0.0.3", "10.0.0.6"), nil
	})

	b.Status.Phase = corev1.PodSucceeded
	if err := e.Client.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, "the pod that has ended is omitted", func() (bool, error) {
		kernel.Lock()
		defer kernel.Unlock()
		return len(kernel.rules.Maps[1].Elements) == 0, nil
	})
}
