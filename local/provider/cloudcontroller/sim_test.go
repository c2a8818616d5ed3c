package cloudcontroller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/test/sim"
)

// balancers is a cloud whose requests fail at times, before or after they have had an effect. What is deleted is gone
// at the second look.
type balancers struct {
	random  *rand.Rand
	faulty  bool
	created int
	list    []*cloud.LoadBalancer
}

func (b *balancers) fails() bool { return b.faulty && b.random.IntN(8) == 0 }

var errCloud = errors.New("the cloud does not answer")

func (b *balancers) CreateLoadBalancer(
	_ context.Context, in cloud.CreateLoadBalancer,
) (*cloud.LoadBalancer, error) {
	if b.fails() {
		return nil, errCloud
	}
	b.created++
	lb := &cloud.LoadBalancer{ID: fmt.Sprintf("lb-%d", b.created), Name: in.Name, Listeners: in.Listeners,
		Address: fmt.Sprintf("10.9.0.%d", b.created)}
	b.list = append(b.list, lb)
	if b.fails() {
		return nil, errCloud
	}
	answer := *lb
	return &answer, nil
}

func (b *balancers) UpdateLoadBalancer(
	_ context.Context, id string, in cloud.UpdateLoadBalancer,
) (*cloud.LoadBalancer, error) {
	for _, lb := range b.list {
		if lb.ID == id && !b.fails() {
			lb.Listeners = in.Listeners
			answer := *lb
			return &answer, nil
		}
	}
	return nil, errCloud
}

func (b *balancers) ListLoadBalancers(_ context.Context, f cloud.Filter) (out []cloud.LoadBalancer, err error) {
	if b.fails() {
		return nil, errCloud
	}
	var left []*cloud.LoadBalancer
	for _, lb := range b.list {
		if lb.Name == f.Name {
			out = append(out, *lb)
		}
		if lb.State != cloud.StateTerminating {
			left = append(left, lb)
		}
	}
	b.list = left
	return out, nil
}

func (b *balancers) DeleteLoadBalancer(_ context.Context, id string) error {
	for _, lb := range b.list {
		if lb.ID == id && !b.fails() {
			lb.State = cloud.StateTerminating
			return nil
		}
	}
	return errCloud
}

// Each Service that wants a load balancer has one for all ready nodes, and its address. None is left behind.
func TestSimulateLoadBalancers(t *testing.T) {
	sim.Run(t, func(w *sim.World) {
		shoot := w.Cluster("shoot", sim.Scheme())
		shoot.AddNamespaces("ns")
		b := &balancers{random: rand.New(rand.NewPCG(w.Random.Uint64(), 0)), faulty: true}
		others := &cloud.LoadBalancer{ID: "other", Name: "other"}
		b.list = append(b.list, others)
		w.Process("cloud-controller-manager", shoot, func(p *sim.Process) error {
			return (&Services{
				Client: p.GetClient(), Cloud: b, Cluster: "c", Recorder: p.GetEventRecorder(""),
			}).SetupWithManager(p)
		})
		named := func(name string) *corev1.Service {
			svc := testService(nil)
			svc.Name, svc.UID = name, ""
			return svc
		}
		read := func(name string) *corev1.Service {
			svc := named(name)
			if !shoot.Exists(svc) {
				return nil
			}
			return svc
		}
		create := func(o client.Object) func(context.Context, client.Client) error {
			return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
		}
		edit := func(name string, change func(*corev1.Service)) func(context.Context, client.Client) error {
			return func(context.Context, client.Client) error {
				svc := named(name)
				return shoot.Edit(svc, func() { change(svc) })
			}
		}
		a, second := testNode("a", "i-a", corev1.ConditionTrue), testNode("b", "i-b", corev1.ConditionFalse)
		w.Change("a node comes", shoot, create(&a))
		w.Change("make Service x", shoot, create(named("x")))
		w.Change("make Service y", shoot, create(named("y")))
		w.Change("another node comes", shoot, create(&second))
		w.Change("Service y becomes internal", shoot,
			edit("y", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }))
		w.Change("the other node is ready", shoot, func(context.Context, client.Client) error {
			n := testNode("b", "i-b", corev1.ConditionTrue)
			return shoot.EditStatus(&n, func() { n.Status = testNode("b", "i-b", corev1.ConditionTrue).Status })
		})
		w.Change("delete Service x", shoot, func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, named("x"))
		})
		w.Change("make Service z", shoot, create(named("z")))
		w.Change("Service z gets another port", shoot,
			edit("z", func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:1] }))
		w.Overlap()

		w.Always("who has a load balancer has the finalizer", func() error {
			holders := map[types.UID]bool{}
			for _, name := range []string{"x", "y", "z"} {
				if svc := read(name); svc != nil && controllerutil.ContainsFinalizer(svc, finalizer) {
					holders[svc.UID] = true
				}
			}
			for _, lb := range b.list {
				if lb.ID != "other" && lb.State != cloud.StateTerminating && !holders[types.UID(lb.Name[len("k8s-"):])] {
					return fmt.Errorf("load balancer %s is left behind", lb.Name)
				}
			}
			return nil
		})
		w.Faults(200)
		b.faulty = false
		w.Eventually(100, "there is one load balancer, with both nodes", func() error {
			z, y := read("z"), read("y")
			if read("x") != nil || z == nil || y == nil || len(b.list) != 2 || b.list[0] != others {
				return fmt.Errorf("load balancers %+v", b.list)
			}
			want, _ := listeners(z, []corev1.Node{testNode("a", "i-a", corev1.ConditionTrue),
				testNode("b", "i-b", corev1.ConditionTrue)}, nil)
			if lb := b.list[1]; !sameListeners(lb.Listeners, want) || len(z.Status.LoadBalancer.Ingress) != 1 ||
				z.Status.LoadBalancer.Ingress[0].IP != lb.Address {
				return fmt.Errorf("%+v, status of the Service %+v", lb, z.Status)
			}
			if len(y.Finalizers) > 0 || len(y.Status.LoadBalancer.Ingress) > 0 {
				return fmt.Errorf("Service y has finalizers %v, status %+v", y.Finalizers, y.Status)
			}
			return nil
		})
	})
}
