package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/extension"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/test/sim"
)

// provider is an extension of a seed: its Actuators keep one object of the cloud for each object of theirs. They fail
// and wait at times.
type provider struct {
	cloud  *sim.Cluster
	random *rand.Rand
	faulty bool
	now    clock.PassiveClock
	// problem is a request that must not have come.
	problem error
}

func newProvider(w *sim.World) *provider {
	cloud := w.Cluster("cloud", sim.Scheme())
	cloud.AddNamespaces("cloud")
	return &provider{
		cloud: cloud, random: rand.New(rand.NewPCG(w.Random.Uint64(), 0)), faulty: true, now: w.Clock(),
	}
}

// inCloud is the object of the cloud for an object of a kind.
func inCloud(kind, name string) *corev1.ConfigMap {
	return named[corev1.ConfigMap]("cloud", kind+"."+name)
}

// keeper is the Actuator of one kind.
type keeper[T extension.Object] struct {
	*provider
	cloud client.Client
	kind  string
	// content is what is kept in the cloud.
	content func(ctx context.Context, obj T) (string, error)
	// clean ends a deletion.
	clean func(ctx context.Context, obj T) error
}

// add registers a reconciler of the extension with an Actuator.
func (k keeper[T]) add(p *sim.Process, prototype T, adapt func(*extension.Reconciler[T])) error {
	r := &extension.Reconciler[T]{
		Client: p.GetClient(), Clock: k.now, Actuator: k, Prototype: prototype, Kind: k.kind, Type: "simulated",
	}
	adapt(r)
	return r.SetupWithManager(p, nil)
}

// act fails before or after a change, or waits after it.
func (k keeper[T]) act(change func() error) (extension.Result, error) {
	outcome := 0
	if k.faulty {
		outcome = k.random.IntN(6)
	}
	if outcome == 1 {
		return extension.Result{}, errors.New("the cloud refuses")
	}
	if err := change(); err != nil {
		return extension.Result{}, err
	}
	switch outcome {
	case 2:
		return extension.Result{}, errors.New("the cloud has a problem")
	case 3:
		return extension.Waiting("the cloud is busy", time.Duration(k.random.IntN(5))*time.Second), nil
	}
	return extension.Done(), nil
}

func (k keeper[T]) Reconcile(ctx context.Context, obj T, _ *extension.Cluster) (extension.Result, error) {
	return k.act(func() error {
		text, err := k.content(ctx, obj)
		if err != nil {
			return err
		}
		kept := inCloud(k.kind, obj.GetName())
		kept.Data = map[string]string{"content": text}
		return kube.Apply(ctx, k.cloud, kept, "provider")
	})
}

func (k keeper[T]) Restore(ctx context.Context, obj T, cluster *extension.Cluster) (extension.Result, error) {
	return k.Reconcile(ctx, obj, cluster)
}

func (k keeper[T]) Migrate(context.Context, T, *extension.Cluster) (extension.Result, error) {
	return k.act(func() error { return nil })
}

func (k keeper[T]) Delete(ctx context.Context, obj T, _ *extension.Cluster) (extension.Result, error) {
	return k.act(func() error {
		if err := client.IgnoreNotFound(k.cloud.Delete(ctx, inCloud(k.kind, obj.GetName()))); err != nil || k.clean == nil {
			return err
		}
		return k.clean(ctx, obj)
	})
}

func (k keeper[T]) ForceDelete(ctx context.Context, obj T, cluster *extension.Cluster) (extension.Result, error) {
	return k.Delete(ctx, obj, cluster)
}
