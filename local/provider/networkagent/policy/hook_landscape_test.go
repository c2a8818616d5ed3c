//go:build landscape

package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// tableIn is the table in a host's network namespace.
type tableIn struct{ host }

func (t tableIn) Replace(r Ruleset) error { return t.do(func() error { return Table{}.Replace(r) }) }
func (t tableIn) Apply(c Change) error    { return t.do(func() error { return Table{}.Apply(c) }) }

// objects is a cache in memory. Its lists are shared, as with a cache that is read without copies.
type objects struct {
	sync.Mutex
	Observed
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	o.Lock()
	defer o.Unlock()
	p, ok := into.(*corev1.Pod)
	for i := range o.Pods {
		if ok && client.ObjectKeyFromObject(&o.Pods[i]) == key {
			*p = o.Pods[i]
			return nil
		}
	}
	return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
}

func (o *objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	o.Lock()
	defer o.Unlock()
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = append([]corev1.Pod(nil), o.Pods...)
	case *corev1.NamespaceList:
		list.Items = o.Namespaces
	case *networkingv1.NetworkPolicyList:
		list.Items = o.Policies
	default:
		return fmt.Errorf("no list of %T", into)
	}
	return nil
}

// runAgent starts a controller with a server for plugins, and returns its socket.
func runAgent(t testing.TB, node host, o *objects) string {
	c := &Controller{
		Client: o, API: o, Clock: clock.RealClock{}, Kernel: tableIn{node}, Node: self,
		woken:   make(chan event.GenericEvent, 1),
		Metrics: NewMetrics(prometheus.NewRegistry(), func() (Refused, error) { return Refused{}, nil }),
	}
	pass := func() {
		if _, err := c.Reconcile(context.Background(), reconcile.Request{}); err != nil {
			t.Error(err)
		}
	}
	pass()
	ctx, cancel := context.WithCancel(context.Background())
	s := &hook.Server{Path: filepath.Join(t.TempDir(), "s"), Confine: c.Confine, Release: c.Release}
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.woken:
				pass()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s.Path
}

// plugin does what the container runtime does when it starts or ends a pod.
func plugin(socket, command, pod, address string) error {
	namespace, name, _ := strings.Cut(pod, "/")
	env := map[string]string{
		"CNI_COMMAND": command, "CNI_CONTAINERID": name, "CNI_NETNS": "n", "CNI_IFNAME": "eth0",
		"CNI_ARGS": "K8S_POD_NAMESPACE=" + namespace + ";K8S_POD_NAME=" + name,
	}
	var out bytes.Buffer
	p := &hook.Plugin{
		Getenv: func(key string) string { return env[key] }, Stdout: &out, Dial: hook.DialSocket,
		Stdin: strings.NewReader(fmt.Sprintf(
			`{"cniVersion":"1.0.0","name":"n","socket":%q,"prevResult":{"ips":[{"address":"%s/24"}]}}`, socket, address)),
	}
	if p.Run() != 0 {
		return errors.New(out.String())
	}
	return nil
}

// TestPluginConfinesBeforeThePodStarts tries connections as soon as the plugin has returned, while no status has an
// address.
func TestPluginConfinesBeforeThePodStarts(t *testing.T) {
	l := newLab(t)
	for i := range 3 {
		l.state.Pods[i].Status.PodIP, l.state.Pods[i].Status.PodIPs = "", nil
	}
	l.state.Policies = []networkingv1.NetworkPolicy{
		newPolicy("x/b", "app=b", bothTypes, from(peers{pods("app=a")}, nil)),
	}
	socket := runAgent(t, l.node, &objects{Observed: l.state})
	l.check(t, l.a, "tcp:"+addressB+":80")

	must(t, plugin(socket, "ADD", "x/b", addressB))
	l.check(t, l.b, "!tcp:"+addressA+":80", "!tcp:"+addressOutside+":80")
	l.check(t, l.a, "~tcp:"+addressB+":80")
	must(t, plugin(socket, "ADD", "x/a", addressA))
	l.check(t, l.a, "tcp:"+addressB+":80")
	must(t, plugin(socket, "ADD", "y/c", addressC))
	l.check(t, l.c, "!tcp:"+addressB+":80")
	must(t, plugin(socket, "CHECK", "x/b", addressB))
	l.check(t, l.b, "!tcp:"+addressA+":80")
}

// BenchmarkPlugin measures the additional time of a pod's start, with 1,000 pods and 200 policies in the cluster.
func BenchmarkPlugin(b *testing.B) {
	for _, local := range []int{110, 1000} {
		b.Run(fmt.Sprintf("local-%d", local), func(b *testing.B) {
			o := &objects{Observed: manyPods(1000, local, 200)}
			o.Pods[0].Status.PodIP, o.Pods[0].Status.PodIPs = "", nil
			pod := client.ObjectKeyFromObject(&o.Pods[0]).String()
			socket := runAgent(b, newHost(b, "node"), o)
			for i := 0; b.Loop(); i++ {
				must(b, plugin(socket, "ADD", pod, fmt.Sprintf("10.3.%d.%d", i/200%200, i%200+2)))
			}
		})
	}
}
