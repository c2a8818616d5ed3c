package controllerinstallation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"hortus.dev/hortus/internal/chart"
)

// capabilitiesPeriod is how long the capabilities of the seed are used before they are read again: two or three
// requests to its API server. They change with an update of the seed or when somebody defines new kinds.
const capabilitiesPeriod = 5 * time.Minute

// Capabilities reads what the API server of the seed offers, for charts. It is for concurrent use.
type Capabilities struct {
	Server interface {
		discovery.ServerVersionInterface
		discovery.ServerResourcesInterface
	}
	Clock clock.PassiveClock

	mutex  sync.Mutex
	read   time.Time // Zero until they were read.
	latest chart.Capabilities
}

// Get returns the capabilities, which are at most a few minutes old. An error says nothing about a chart: it should be
// retried.
func (c *Capabilities) Get(ctx context.Context) (chart.Capabilities, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.Clock.Now()
	if !c.read.IsZero() && now.Sub(c.read) < capabilitiesPeriod {
		return c.latest, nil
	}
	version, err := c.Server.ServerVersion()
	if err != nil {
		return chart.Capabilities{}, fmt.Errorf("read version of the seed: %w", err)
	}
	groups, resources, err := c.Server.ServerGroupsAndResources()
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return chart.Capabilities{}, fmt.Errorf("read API versions of the seed: %w", err)
	}
	found := chart.CapabilitiesOf(*version, groups, resources)
	if partial != nil {
		// An aggregated API whose server does not answer must not stop all extensions, nor change their objects.
		ctrl.LoggerFrom(ctx).Info("Some API versions of the seed do not answer", "reason", partial.Error())
		for gv := range partial.Groups {
			found = found.WithKindsOf(c.latest, gv.String())
		}
	}
	c.latest, c.read = found, now
	return found, nil
}
