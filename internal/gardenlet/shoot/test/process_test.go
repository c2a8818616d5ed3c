package test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// process is a process of a gardenlet: when it has ended, its requests no longer reach a server.
type process struct {
	mu    sync.Mutex
	ended bool
	// written are the versions of the objects that it has written, to recognize writes that change nothing.
	written map[string]string
	// before decides whether a write fails, after whether the process stops after it; changed says whether the write has
	// changed the object. done is called after every write. All may be nil.
	before func(write string) error
	after  func(write string, changed bool) bool
	done   func(kind, name string)
}

var errNoAnswer = errors.New("the server does not answer")

func (p *process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// write makes one write after the other, so that the nth one is deterministic.
func (p *process) write(verb, sub string, o any, scheme *runtime.Scheme, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errStopped
	}
	kind, name := identify(o, scheme)
	if err := p.before(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", verb, kind, name, sub))); err != nil {
		return err
	}
	if err := do(); err != nil {
		p.done(kind, name) // The write may have succeeded if only the response was lost.
		return err
	}
	object := kind + " " + name
	version := versionOf(o)
	changed := verb == "delete" || p.written[object] != version
	p.written[object] = version
	p.done(kind, name)
	if p.after(fmt.Sprintf("%s %s %s %s", verb, object, sub, detail(o)), changed) {
		p.ended = true
		return errStopped
	}
	return nil
}

func identify(o any, scheme *runtime.Scheme) (kind, name string) {
	if u, ok := o.(interface {
		GetKind() string
		GetNamespace() string
		GetName() string
	}); ok {
		return u.GetKind(), u.GetNamespace() + "/" + u.GetName()
	}
	object := o.(client.Object)
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		panic(err)
	}
	return gvk.Kind, object.GetNamespace() + "/" + object.GetName()
}

func versionOf(o any) string {
	if v, ok := o.(interface{ GetResourceVersion() string }); ok {
		return v.GetResourceVersion()
	}
	return ""
}

// detail distinguishes writes to the same object with different meanings.
func detail(o any) string {
	switch o := o.(type) {
	case *corev1beta1.Shoot:
		if last := o.Status.LastOperation; last != nil {
			return fmt.Sprint(last.Type, last.State, ptr.Deref(o.Status.SeedName, ""))
		}
	case *coordinationv1.Lease:
		return fmt.Sprint(ptr.Deref(o.Spec.HolderIdentity, ""), ptr.Deref(o.Spec.LeaseTransitions, 0),
			o.Spec.AcquireTime != nil,
			o.Annotations["hortus.dev/called"], o.Annotations["hortus.dev/prepared"])
	case *corev1beta1.BackupEntry:
		if last := o.Status.LastOperation; last != nil {
			return fmt.Sprint(last.Type, last.State, ptr.Deref(o.Spec.SeedName, ""), ptr.Deref(o.Status.SeedName, ""))
		}
	case *appsv1.Deployment:
		return fmt.Sprint(ptr.Deref(o.Spec.Replicas, 1))
	case extensionsv1alpha1.Object:
		return o.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]
	}
	return ""
}

// client is the connection of the process to a server.
func (p *process) client(c client.WithWatch) client.Client {
	scheme := c.Scheme()
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if p.stopped() {
				return errStopped
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if p.stopped() {
				return errStopped
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return p.write("create", "", o, scheme, func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return p.write("delete", "", o, scheme, func() error { return c.Delete(ctx, o, opts...) })
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			return p.write("delete", "all", o, scheme, func() error { return c.DeleteAllOf(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return p.write("update", "", o, scheme, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			opts ...client.PatchOption) error {
			return p.write("patch", "", o, scheme, func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return p.write("apply", "", o, scheme, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return p.write("update", sub, o, scheme, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			return p.write("patch", sub, o, scheme, func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	})
}

// fault affects the two gardenlets of a move: at the different write with number first, and at every nth after it;
// never if first is 0. Writes that a process repeats after a stop or a failure do not count, so that everything ends.
type fault struct {
	first, every int
	// stop ends the process after the write; otherwise the write fails before it is done.
	stop bool
	// writes of each gardenlet; seen are the different ones, and the number of them before the control plane changed its
	// seed.
	writes     map[bool]int
	seen       map[string]bool
	handedOver int
	// hit is the last write with a fault, and hits the number of faults.
	hit  string
	hits int
}

func (f *fault) before(source bool, write string) error {
	f.writes[source]++
	switch {
	case f.stop || !f.strikes(write):
		return nil
	case f.hits%2 == 0:
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("somebody was faster"))
	}
	return errNoAnswer
}

func (f *fault) after(write string, changed bool) bool {
	if f.handedOver == 0 && strings.Contains(write, " Shoot ") && strings.Contains(write, handOver) {
		f.handedOver = len(f.seen)
	}
	return f.stop && changed && f.strikes(write)
}

// handOver is part of the detail of the write to the Shoot by which a source hands over.
const handOver = string(corev1beta1.LastOperationTypeMigrate) + string(corev1beta1.LastOperationStateSucceeded)

func (f *fault) strikes(write string) bool {
	if f.seen[write] {
		return false
	}
	f.seen[write] = true
	since := len(f.seen) - f.first
	if f.first == 0 || since < 0 || since > 0 && (f.every == 0 || since%f.every != 0) {
		return false
	}
	f.hits++
	f.hit = write
	return true
}
