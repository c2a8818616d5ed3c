package test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// trouble makes the nth write fail, in one of three ways: before it is done, with a conflict, or after it is done, as
// if the process had stopped right then.
type trouble struct {
	mu     sync.Mutex
	n, at  int
	way    int
	struck bool
}

const ways = 3

var errStopped = errors.New("stopped after the write")

func (f *trouble) around(write func() error) error {
	f.mu.Lock()
	f.n++
	strike := f.n == f.at
	f.struck = f.struck || strike
	f.mu.Unlock()
	if !strike {
		return write()
	}
	switch f.way {
	case 0:
		return errors.New("the server does not answer")
	case 1:
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("somebody was faster"))
	}
	return errors.Join(write(), errStopped)
}

func (f *trouble) client(c client.WithWatch) client.Client {
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
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			opts ...client.ApplyOption) error {
			return f.around(func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return f.around(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

func (s *seed) watchClient(c client.Client, confined bool) client.WithWatch {
	s.t.Helper()
	config := s.Config
	if confined {
		config = s.As(corev1beta1.SeedUserPrefix+s.object.Name, corev1beta1.SeedsGroup)
	}
	out, err := client.NewWithWatch(config, client.Options{Scheme: c.Scheme()})
	s.must(err)
	return out
}

// lifeOfBackups creates a bucket and an entry, changes the credentials, and deletes everything.
func (s *seed) lifeOfBackups() {
	s.t.Helper()
	b := s.bucketReady()
	e := s.newEntry(b.Name)
	s.ensureNamespace(s.cluster, controlPlane(e))
	s.runEntry(e, func() bool { return entrySucceeded(e) })
	if s.secret(s.cluster, controlPlane(e), "etcd-backup") == nil {
		s.t.Error("etcd has no Secret")
	}
	changed := s.validCredentials()
	changed["comment"] = []byte(e.Name)
	s.setCredentials(changed)
	copied := func(name string) bool { return string(s.secret(s.cluster, "garden", name).Data["comment"]) == e.Name }
	s.runBucket(b, func() bool { return bucketSucceeded(b) && copied("bucket-"+b.Name) })
	s.runEntry(e, func() bool { return entrySucceeded(e) && copied("entry-"+e.Name) })

	s.backUp(e)
	s.must(s.Client.Delete(s.ctx, e))
	s.runEntry(e, func() bool { return gone(e) })
	if keys, _ := s.objects(b.Name); len(keys) > 0 {
		s.t.Errorf("objects are left: %v", keys)
	}
	s.must(s.Client.Delete(s.ctx, b))
	s.runBucket(b, func() bool { return gone(b) })
	if _, found := s.objects(s.bucketName()); found {
		s.t.Error("the bucket is left")
	}
	for _, name := range []string{"bucket-" + b.Name, "entry-" + e.Name} {
		if s.secret(s.cluster, "garden", name) != nil {
			s.t.Errorf("Secret %s is left", name)
		}
	}
}

// Whichever single write fails or is the last one of a process, a bucket and an entry are created, changed and deleted.
func TestBackupsSurviveAStopAfterEachWrite(t *testing.T) {
	for at := 1; ; at++ {
		w := newWorld(t)
		s := w.newSeed(w.Client)
		f := &trouble{at: at, way: at % ways}
		s.buckets.Garden, s.buckets.Seed = f.client(s.watchClient(s.garden, true)), f.client(s.watchClient(w.Client, false))
		s.entries.Garden, s.entries.Seed = s.buckets.Garden, s.buckets.Seed
		s.lifeOfBackups()
		if t.Failed() {
			t.Fatalf("after trouble with write %d, way %d", f.at, f.way)
		}
		if !f.struck {
			t.Logf("%d writes", at-1)
			return
		}
	}
}

// stale answers every second read of an object with the result of the previous read, as a stale cache would.
type stale struct {
	mu    sync.Mutex
	reads map[string]int
	seen  map[string]client.Object
}

func (f *stale) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			id := fmt.Sprintf("%T %s", o, key)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reads[id]++
			old := f.seen[id]
			err := c.Get(ctx, key, o, opts...)
			switch {
			case err == nil:
				f.seen[id] = o.DeepCopyObject().(client.Object)
			case apierrors.IsNotFound(err):
				f.seen[id] = nil
			}
			if f.reads[id]%2 == 1 || err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if old == nil {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			reflect.ValueOf(o).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
			return nil
		},
	})
}

func TestBackupsSurviveStaleReads(t *testing.T) {
	w := newWorld(t)
	s := w.newSeed(w.Client)
	newStale := func() *stale { return &stale{reads: map[string]int{}, seen: map[string]client.Object{}} }
	s.buckets.Garden, s.buckets.Seed = newStale().client(s.watchClient(s.garden,
		true)), newStale().client(s.watchClient(w.Client, false))
	s.entries.Garden, s.entries.Seed = newStale().client(s.watchClient(s.garden,
		true)), newStale().client(s.watchClient(w.Client, false))
	s.lifeOfBackups()
}
