package nodeagent

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// stops ends a process before or after one of its actions: at the stop with the number at.
type stops struct {
	at, count int
	where     string // The action that the process was about to do, or had just done.
}

func (s *stops) pass(operation string) {
	if s.count++; s.count == s.at {
		s.where = operation
		panic(errStop)
	}
}

// newStops stops the process around its actions outside of its own files.
func newStops(a *agent, at int) *stops {
	s := &stops{at: at}
	a.units.Fail = func(operation string) error { s.pass("before " + operation); return nil }
	a.images.fail = a.units.Fail
	a.InPlace.Pods = func() (kubernetes.Interface, error) {
		s.pass("before the pods are deleted")
		return fake.NewClientset(), nil
	}
	a.Client = interceptor.NewClient(a.cluster.(client.WithWatch), interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption,
		) error {
			s.pass("before the Node is patched")
			err := c.Patch(ctx, o, patch, opts...)
			s.pass("after the Node is patched")
			return err
		},
	})
	return s
}

// process reconciles until the process has nothing to do or is stopped.
func (a *agent) process(t *testing.T) (stopped bool) {
	t.Helper()
	a.seen = pending{}
	defer func() {
		if r := recover(); r != nil {
			if r != errStop {
				panic(r)
			}
			stopped = true
		}
	}()
	for range 3 {
		if _, err := a.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
	return false
}

// TestUpdatesInPlaceSurviveStops stops the node agent at each point of an update: its success is reported to the
// machine controller, even if the last change was made before the stop, or if the configuration has changed meanwhile.
func TestUpdatesInPlaceSurviveStops(t *testing.T) {
	raw := func(os, kubelet, other string) []byte {
		raw := inPlaceOSC(t, os, kubelet,
			func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { setFile(s, "/etc/other", other) })
		return append(raw, []byte("status:\n  inPlaceUpdates: {osUpdate: {command: /bin/update}}\n")...)
	}
	for name, to := range map[string]struct{ os, kubelet string }{
		"kubelet":          {"1.0.0", "1.36.3"},
		"operating system": {"1.1.0", "1.35.4"},
		"both":             {"1.1.0", "1.36.3"},
	} {
		for meanwhile, other := range map[string]string{"nothing": "1", "another file": "2"} {
			t.Run(fmt.Sprintf("%s, meanwhile comes %s", name, meanwhile), func(t *testing.T) {
				stops := &stops{where: "at first"}
				for at := 1; stops.where != ""; at++ {
					a := newAgent(t, raw("1.0.0", "1.35.4", "1"), node(nil))
					a.InPlace.Run = func(context.Context, string, ...string) ([]byte, error) {
						a.testNode.write(t, "/etc/os-release", "PRETTY_NAME=\"X 1.1.0\"\n")
						a.testNode.write(t, bootIDFile, "boot-2\n")
						panic(errStop) // The machine shuts down.
					}
					a.process(t)
					a.drained(t)
					a.setSecret(t, raw(to.os, to.kubelet, "1"))
					stops = newStops(a, at)
					for a.process(t) && stops.where == "" {
					}
					last := raw(to.os, to.kubelet, other)
					a.setSecret(t, last)
					for a.process(t) {
					}
					n := a.node(t)
					if n.Labels[corev1beta1.LabelNodeUpdateResult] != corev1beta1.NodeUpdateResultSuccessful ||
						n.Annotations[config.AnnotationChecksum] != change.Checksum(last) {
						t.Errorf("stopped %s: labels %v, annotations %v", stops.where, n.Labels, n.Annotations)
					}
					a.acknowledge(t)
					a.setSecret(t, raw(to.os, to.kubelet, "3"))
					a.process(t)
					_, reported := a.node(t).Labels[corev1beta1.LabelNodeUpdateResult]
					if got := a.read(t, "/etc/other"); got != "3" || reported {
						t.Errorf("stopped %s: a later change leads to %q, reported as an update in place: %t", stops.where, got, reported)
					}
				}
			})
		}
	}
}

// acknowledge does what the machine controller does when an update was reported as successful.
func (a *agent) acknowledge(t *testing.T) {
	t.Helper()
	n := a.node(t)
	delete(n.Labels, corev1beta1.LabelNodeUpdateResult)
	if err := a.cluster.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n = a.node(t)
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == conditionInPlaceUpdate {
			n.Status.Conditions[i].Reason = "UpdateSuccessful"
		}
	}
	if err := a.cluster.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
