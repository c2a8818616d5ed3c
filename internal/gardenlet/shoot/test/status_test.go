package test

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// TestStatusIsWrittenOncePerPass: a pass during a creation writes the Shoot's status at most once. The pass in which an
// operation begins also writes the start first.
func TestStatusIsWrittenOncePerPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	writes := 0
	direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	w.r.Garden = interceptor.NewClient(direct, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			if _, ok := o.(*corev1beta1.Shoot); ok {
				writes++
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	passes, before := 0, 0
	w.run(w.newShoot("a"), func(s *corev1beta1.Shoot) bool {
		passes++
		allowed := 1
		if passes == 1 {
			allowed = 2
		}
		if n := writes - before; n > allowed {
			t.Errorf("pass %d: %d writes (at most %d)", passes, n, allowed)
		}
		before = writes
		return succeeded(s)
	})
	t.Logf("%d writes in %d passes", writes, passes)
}
