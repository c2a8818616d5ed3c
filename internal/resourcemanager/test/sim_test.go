// Package test simulates the controllers of the resource manager, see test/sim.
package test

import (
	"context"
	"fmt"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/resourcemanager/node"
	"hortus.dev/hortus/internal/resourcemanager/token"
	"hortus.dev/hortus/test/sim"
)

const namespace = "shoot--dev--s"

// simulate runs controllers in a simulated process like a Shoot's resource manager. The seed has the kinds of machines.
func simulate(
	t *testing.T, setup func(*sim.Process, *sim.Connection) error, test func(w *sim.World, seed, shoot *sim.Cluster),
) {
	t.Helper()
	sim.Run(t, func(w *sim.World) {
		scheme := sim.Scheme()
		if err := machinev1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		seed, shoot := w.Cluster("seed", scheme), w.Cluster("shoot", sim.Scheme())
		seed.AddNamespaces(namespace)
		shoot.AddNamespaces("kube-system")
		w.Process("resource-manager", seed, func(p *sim.Process) error { return setup(p, p.In(shoot)) })
		test(w, seed, shoot)
	})
}

// A token exists and is valid, before and after its renewal.
func TestSimulateTokens(t *testing.T) {
	simulate(t, func(p *sim.Process, shoot *sim.Connection) error {
		r := &token.Reconciler{
			Source: p.GetClient(), Target: shoot.Direct(), Clock: clockOf(p), Jitter: func() float64 { return 0.5 },
		}
		return r.AddToManager(p, p.GetCache())
	}, func(w *sim.World, seed, _ *sim.Cluster) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s",
			Labels: map[string]string{resourcesv1alpha1.LabelPurpose: resourcesv1alpha1.PurposeTokenRequestor},
			Annotations: map[string]string{
				resourcesv1alpha1.AnnotationServiceAccountName:      "robot",
				resourcesv1alpha1.AnnotationServiceAccountNamespace: "kube-system",
			}}}
		w.Change("request a token", seed, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, s.DeepCopy())
		})
		w.Faults(60)
		first := ""
		w.Eventually(20, "there is a token", func() error {
			if first = ""; seed.Exists(s) {
				first = string(s.Data["token"])
			}
			if first == "" {
				return fmt.Errorf("%+v", s.Annotations)
			}
			return nil
		})
		w.Idle(11 * time.Hour)
		w.Eventually(20, "it has been renewed", func() error {
			if !seed.Exists(s) || string(s.Data["token"]) == first {
				return fmt.Errorf("still %q", first)
			}
			return nil
		})
	})
}

// The taint is removed when the critical pods of the node are ready, and not before; delays are spread over all nodes.
func TestSimulateNodes(t *testing.T) {
	simulate(t, func(p *sim.Process, shoot *sim.Connection) error {
		readiness := &node.Readiness{
			Target: shoot.GetClient(), Reader: shoot.GetAPIReader(), Recorder: shoot.GetEventRecorder(""),
		}
		if err := readiness.AddToManager(p, shoot.GetCache()); err != nil {
			return err
		}
		return (&node.Delay{Target: shoot.GetClient(), Max: 5 * time.Minute}).AddToManager(p, shoot.GetCache())
	}, func(w *sim.World, _, shoot *sim.Cluster) {
		fresh := func(name string) *corev1.Node {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			n.Spec.Taints = []corev1.Taint{{Key: node.TaintNotReady, Effect: corev1.TaintEffectNoSchedule}}
			return n
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p",
			Labels: map[string]string{node.LabelCritical: "true"}}}
		pod.Spec.NodeName = "a"
		shoot.Add(pod)
		ready := false
		w.Always("the taint stays until the pod is ready", func() error {
			if a := fresh("a"); !ready && shoot.Exists(a) && len(a.Spec.Taints) == 0 {
				return fmt.Errorf("the taint is gone")
			}
			return nil
		})
		w.Idle(time.Second) // The pod is in the cache.
		for _, name := range []string{"a", "b"} {
			w.Change("node "+name, shoot, func(ctx context.Context, c client.Client) error { return c.Create(ctx, fresh(name)) })
		}
		w.Change("the pod is ready", shoot, func(context.Context, client.Client) error {
			ready = true
			return shoot.EditStatus(pod, func() {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			})
		})
		w.Faults(80)
		w.Eventually(60, "both are untainted, with different delays", func() error {
			a, b := fresh("a"), fresh("b")
			if !shoot.Exists(a) || !shoot.Exists(b) || len(a.Spec.Taints)+len(b.Spec.Taints) > 0 ||
				a.Annotations[node.AnnotationDelay] == b.Annotations[node.AnnotationDelay] {
				return fmt.Errorf("%+v, %+v", a, b)
			}
			return nil
		})
	})
}

func clockOf(*sim.Process) clock.WithTicker { return clock.RealClock{} } // The time of the bubble.
