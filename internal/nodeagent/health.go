package nodeagent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"hortus.dev/hortus/internal/nodeagent/units"
)

const (
	healthPeriod  = 10 * time.Second
	healthTimeout = 5 * time.Second
	// maxFailureDuration is how long a unit may stay unhealthy before it is restarted, and the shortest time between two
	// restarts. A kubelet with many pods needs most of a minute to answer after a start.
	maxFailureDuration = time.Minute
)

// HealthChecker restarts a unit whose process runs but no longer answers.
type HealthChecker struct {
	Unit  string
	Check func(context.Context) error

	Units    units.Manager
	Reader   client.Reader
	Recorder record.EventRecorder
	HostName string
	Clock    clock.Clock
}

// failing holds the time since which a unit has been unhealthy without interruption; the zero value is healthy.
type failing struct{ since time.Time }

// next returns the new state after a check, and whether to restart the unit.
func (f failing) next(now time.Time, healthy bool) (failing, bool) {
	switch {
	case healthy:
		return failing{}, false
	case f.since.IsZero():
		return failing{since: now}, false
	case now.Sub(f.since) >= maxFailureDuration:
		return failing{since: now}, true // The time begins anew, so that the unit has as long to recover.
	}
	return f, false
}

// Start implements manager.Runnable.
func (h *HealthChecker) Start(ctx context.Context) error {
	var state failing
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.Clock.After(healthPeriod):
		}
		checkCtx, cancel := context.WithTimeout(ctx, healthTimeout)
		err := h.Check(checkCtx)
		cancel()
		var restart bool
		if state, restart = state.next(h.Clock.Now(), err == nil); restart {
			h.restart(ctx, err)
		}
	}
}

func (h *HealthChecker) restart(ctx context.Context, cause error) {
	logger := log.FromContext(ctx)
	logger.Info("Restarting unit that does not answer", "unit", h.Unit, "cause", cause.Error())
	err := h.Units.Restart(ctx, h.Unit)
	if err != nil {
		logger.Error(err, "Unit cannot be restarted", "unit", h.Unit)
	}
	node, findErr := FindNode(ctx, h.Reader, h.HostName)
	if findErr != nil || node == nil {
		return // Only the event is lost.
	}
	h.Recorder.Event(node, corev1.EventTypeWarning, "UnitUnhealthy",
		fmt.Sprintf("Restarted %s, which did not answer for %s: %v", h.Unit, maxFailureDuration, cause))
}
