package reconnect

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// minPause follows the first failure. A conflict of two writes is resolved by then.
	minPause = 100 * time.Millisecond
	// MaxPause is the longest pause of a controller whose objects people wait for. It is reached after 10 failures; one
	// attempt in 30 s for each object is no load for an API server that has just recovered.
	MaxPause = 30 * time.Second
)

// RateLimiter returns the pauses of a controller between failed reconciliations of an object: they double up to
// MaxPause.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minPause, MaxPause)
}
