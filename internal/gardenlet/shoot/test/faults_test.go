package test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// faulty makes about every seventh write fail: before it is done, with a conflict, or after it is done, as if the
// process had stopped right then. After some hundred writes nothing fails any more.
type faulty struct {
	random *rand.Rand
	left   atomic.Int64
	mu     sync.Mutex
}

var errStopped = errors.New("stopped after the write")

func (f *faulty) around(write func() error) error {
	if f.left.Add(-1) < 0 {
		return write()
	}
	f.mu.Lock()
	n := f.random.IntN(21)
	f.mu.Unlock()
	switch n {
	case 0:
		return errors.New("the server does not answer")
	case 1:
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("somebody was faster"))
	case 2:
		return errors.Join(write(), errStopped)
	}
	return write()
}

func (f *faulty) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.around(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.around(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return f.around(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return f.around(func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return f.around(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// faultyWrites suffices for every step to fail at least once.
const faultyWrites = 600

// Whichever writes fail or are the last ones of a process, the Shoot is finally created and deleted.
func TestShootSurvivesFaults(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2} {
		w := newWorld(t)
		f := &faulty{random: rand.New(rand.NewPCG(seed, 0))}
		f.left.Store(faultyWrites)
		direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
		w.must(err)
		w.r.Garden, w.r.Seed = f.client(direct), f.client(direct)

		s := w.run(w.newShoot("a"), succeeded)
		if s.Status.LastOperation.Type != corev1beta1.LastOperationTypeCreate || len(s.Status.LastErrors) > 0 {
			t.Errorf("seed %d: %+v, %+v", seed, s.Status.LastOperation, s.Status.LastErrors)
		}
		f.left.Store(faultyWrites)
		w.delete(s)
		w.run(s, gone)
	}
}
