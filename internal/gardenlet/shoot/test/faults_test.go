package test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// faulty makes about every seventh write fail: before it is done, with a conflict, or after it is done, as if the
// process had stopped right then. After some hundred writes nothing fails any more. Which of the first tries of a write
// fail depends on the seed alone, and not on the order of steps that run at the same time.
type faulty struct {
	seed uint64
	// rename replaces the parts of names that differ from run to run.
	rename *strings.Replacer
	left   atomic.Int64
	mu     sync.Mutex
	tries  map[string]int // By write.
}

var errStopped = errors.New("stopped after the write")

// fault is the number of the fault of the nth try of a write; most have none.
func (f *faulty) fault(write string, n int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d", f.seed, write, n)
	return rand.New(rand.NewPCG(h.Sum64(), f.seed)).Uint64N(21)
}

func (f *faulty) around(verb, sub string, o any, scheme *runtime.Scheme, do func() error) error {
	if f.left.Add(-1) < 0 {
		return do()
	}
	kind, name := identify(o, scheme)
	write := f.rename.Replace(fmt.Sprintf("%s %s %s %s", verb, kind, name, sub))
	f.mu.Lock()
	f.tries[write]++
	n := f.tries[write]
	f.mu.Unlock()
	switch f.fault(write, n) {
	case 0:
		return errNoAnswer
	case 1:
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("somebody was faster"))
	case 2:
		return errors.Join(do(), errStopped)
	}
	return do()
}

func (f *faulty) client(c client.WithWatch) client.Client {
	scheme := c.Scheme()
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.around("create", "", o, scheme, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.around("delete", "", o, scheme, func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return f.around("patch", "", o, scheme, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return f.around("apply", "", o, scheme, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return f.around("patch", sub, o, scheme, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// faultyWrites suffices for every step to fail at least once.
const faultyWrites = 600

// newFaulty makes writes for a Shoot fail. What is random in its names does not count.
func newFaulty(seed uint64, s *corev1beta1.Shoot) *faulty {
	project := strings.TrimPrefix(s.Namespace, corev1beta1.ProjectNamespacePrefix)
	f := &faulty{seed: seed, tries: map[string]int{}, rename: strings.NewReplacer(
		corev1beta1.TechnicalIDPrefix+project+"--"+s.Name, "<control plane>", string(s.UID), "<uid>",
		s.Namespace, "<project>", s.Name, "<shoot>",
	)}
	f.left.Store(faultyWrites)
	return f
}

// The seed determines which tries of a write fail, in whatever order the writes are made.
func TestFaultsDependOnTheSeed(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	faults := func(seed uint64, shoot string, backwards bool) []string {
		f := newFaulty(seed, &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden-" + shoot, Name: shoot, UID: types.UID("uid of " + shoot),
		}})
		var failed []string
		for i := range 100 {
			if backwards {
				i = 99 - i
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shoot--" + shoot + "--" + shoot, Name: fmt.Sprint(shoot, i),
			}}
			for try := range 3 {
				if err := f.around("patch", "", secret, scheme, func() error { return nil }); err != nil {
					failed = append(failed, fmt.Sprintf("%d, try %d: %v", i, try, err))
				}
			}
		}
		slices.Sort(failed)
		return failed
	}
	one := faults(1, "sabc", false)
	if n := len(one); n < 20 || n > 70 {
		t.Errorf("%d of 300 writes have failed, want about one in seven", n)
	}
	if diff := cmp.Diff(one, faults(1, "sxyz", true)); diff != "" {
		t.Errorf("the same seed, in another order (-first +second):\n%s", diff)
	}
	if slices.Equal(one, faults(2, "sabc", false)) {
		t.Error("two seeds lead to the same faults")
	}
}

// Whichever writes fail or are the last ones of a process, the Shoot is finally created and deleted.
func TestShootSurvivesFaults(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2} {
		w := newWorld(t)
		created := w.newShoot("a")
		f := newFaulty(seed, created)
		direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
		w.must(err)
		w.r.Garden, w.r.Seed = f.client(direct), f.client(direct)

		s := w.run(created, succeeded)
		if s.Status.LastOperation.Type != corev1beta1.LastOperationTypeCreate || len(s.Status.LastErrors) > 0 {
			t.Errorf("seed %d: %+v, %+v", seed, s.Status.LastOperation, s.Status.LastErrors)
		}
		f.left.Store(faultyWrites)
		w.delete(s)
		w.run(s, gone)
	}
}
