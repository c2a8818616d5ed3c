package reconnect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// minListPause and maxListPause bound the pauses of a cache between attempts to reach an API server. A gardenlet has
	// about ten caches, and those of many gardenlets return to a garden at the same time, so the pauses are random.
	minListPause = 500 * time.Millisecond
	maxListPause = 10 * time.Second
)

// NewInformer is for cache.Options of controller-runtime. Its informers continue with their lists and watches within
// 10 s after the API server can be reached again, where those of client-go may take a minute.
func NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(
		&persistent{ListerWatcher: lw, inner: cache.ToListerWatcherWithContext(lw), kind: fmt.Sprintf("%T", example)},
		example, resync, indexers)
}

// persistent repeats lists and watches that fail because of an outage. All other errors are left to the reflector,
// which begins with a short pause then.
type persistent struct {
	cache.ListerWatcher // For methods without a context.

	inner cache.ListerWatcherWithContext
	kind  string
}

func (p *persistent) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return persist(ctx, p.kind, func() (runtime.Object, error) { return p.inner.ListWithContext(ctx, options) })
}

func (p *persistent) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return persist(ctx, p.kind, func() (watch.Interface, error) { return p.inner.WatchWithContext(ctx, options) })
}

// IsWatchListSemanticsUnSupported is called by client-go on fake clients.
func (p *persistent) IsWatchListSemanticsUnSupported() bool {
	fake, ok := p.inner.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && fake.IsWatchListSemanticsUnSupported()
}

func persist[T any](ctx context.Context, kind string, try func() (T, error)) (T, error) {
	for failures := 0; ; failures++ {
		result, err := try()
		if err == nil || !outage(err) {
			if failures > 0 {
				ctrl.LoggerFrom(ctx).Info("Continues to list and watch", "kind", kind, "failures", failures)
			}
			return result, err
		}
		if failures == 0 && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list or watch; retrying", "kind", kind)
		}
		if !pause(ctx, listPause(failures, rand.Float64())) {
			return result, err
		}
	}
}

// listPause returns the pause after failure n (from 0): it doubles up to the maximum; chance in [0,1) reduces it by up
// to a half.
func listPause(n int, chance float64) time.Duration {
	d := maxListPause
	if n < 5 { // Later ones exceed the maximum.
		d = min(minListPause<<n, maxListPause)
	}
	return d - time.Duration(chance*float64(d)/2)
}

// outage reports whether a request failed because an API server was not available: the one that is called, the one to
// which that forwards the request, or the one that authorizes gardenlets, without which the garden denies everything.
func outage(err error) bool {
	if apierrors.IsServiceUnavailable(err) || apierrors.IsForbidden(err) {
		return true
	}
	var connection *url.Error
	return errors.As(err, &connection)
}
