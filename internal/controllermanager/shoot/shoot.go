// Package shoot lists the controllers of Shoots in the garden: each is a folder, with pure functions for its decisions.
package shoot

import (
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"hortus.dev/hortus/internal/controllermanager/shoot/hibernation"
	"hortus.dev/hortus/internal/controllermanager/shoot/maintenance"
	"hortus.dev/hortus/internal/controllermanager/shoot/migration"
	"hortus.dev/hortus/internal/controllermanager/shoot/quota"
	"hortus.dev/hortus/internal/controllermanager/shoot/reference"
	"hortus.dev/hortus/internal/controllermanager/shoot/retry"
	"hortus.dev/hortus/internal/controllermanager/shoot/statuslabel"
	decision "hortus.dev/hortus/internal/maintenance"
)

// Config is the operator's configuration. Zero values mean the defaults.
type Config struct {
	// ConcurrentSyncs is the maximum number of Shoots that each controller reconciles concurrently. Default 5.
	ConcurrentSyncs int `json:"concurrentSyncs,omitempty"`
	// MaintenanceJitterSeed distributes maintenances within their time windows; 'hortus plan' needs the same seed to
	// compute the exact times. Default 0.
	MaintenanceJitterSeed uint64 `json:"maintenanceJitterSeed,omitempty"`
	// EnableShootControlPlaneRestarter restarts control plane pods that request it in every maintenance. Default true.
	EnableShootControlPlaneRestarter *bool `json:"enableShootControlPlaneRestarter,omitempty"`
	// EnableShootCoreAddonRestarter restarts CoreDNS in every maintenance. Default false.
	EnableShootCoreAddonRestarter *bool `json:"enableShootCoreAddonRestarter,omitempty"`
	// HibernationTriggerDeadline is how late a missed schedule is still acted on. Default 2h.
	HibernationTriggerDeadline metav1.Duration `json:"hibernationTriggerDeadline,omitempty"`
	// RetryPeriod and RetryJitter define the time before a Shoot is retried after a rate limit. Default 10m and 5m.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
	RetryJitter metav1.Duration `json:"retryJitter,omitempty"`
	// QuotaSyncPeriod is how often quotas are read again. Default 1h.
	QuotaSyncPeriod metav1.Duration `json:"quotaSyncPeriod,omitempty"`
	// Metrics is the registry for the controllers' metrics; nil registers none.
	Metrics prometheus.Registerer `json:"-"`
}

// defaultConcurrentSyncs allows about 150 maintenances per second with one API server, which is also its limit.
const defaultConcurrentSyncs = 5

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// AddToManager adds all controllers of Shoots. The manager's scheme must know core.gardener.cloud and
// security.gardener.cloud.
func AddToManager(mgr manager.Manager, c Config, clock clock.PassiveClock) error {
	garden, syncs := mgr.GetClient(), orDefault(c.ConcurrentSyncs, defaultConcurrentSyncs)
	jitter := decision.HashJitter(c.MaintenanceJitterSeed)
	profiles, metrics := &maintenance.Profiles{}, (*maintenance.Metrics)(nil)
	if c.Metrics != nil {
		metrics = maintenance.NewMetrics(c.Metrics)
		c.Metrics.MustRegister(&maintenance.Due{Garden: garden, Clock: clock, Profiles: profiles, Elected: mgr.Elected()})
	}
	for _, add := range []func(manager.Manager, int) error{
		(&maintenance.Reconciler{
			Garden: garden,
			Clock:  clock,
			Jitter: jitter,
			Options: decision.Options{
				RestartControlPlane: c.EnableShootControlPlaneRestarter == nil || *c.EnableShootControlPlaneRestarter,
				RestartCoreAddons:   c.EnableShootCoreAddonRestarter != nil && *c.EnableShootCoreAddonRestarter,
			},
			Recorder: mgr.GetEventRecorder(maintenance.Name),
			Profiles: profiles,
			Metrics:  metrics,
		}).AddToManager,
		(&hibernation.Reconciler{
			Garden:          garden,
			Clock:           clock,
			Recorder:        mgr.GetEventRecorder(hibernation.Name),
			TriggerDeadline: orDefault(c.HibernationTriggerDeadline.Duration, decision.DefaultTriggerDeadline),
		}).AddToManager,
		(&retry.Reconciler{
			Garden:    garden,
			Clock:     clock,
			Period:    orDefault(c.RetryPeriod.Duration, retry.DefaultPeriod),
			MaxJitter: orDefault(c.RetryJitter.Duration, retry.DefaultJitter),
			Jitter:    decision.HashJitter(rand.Uint64()), // Nobody needs to predict a retry.
		}).AddToManager,
		(&quota.Reconciler{
			Garden: garden, Live: mgr.GetAPIReader(), Clock: clock,
			SyncPeriod: orDefault(c.QuotaSyncPeriod.Duration, quota.DefaultSyncPeriod),
		}).AddToManager,
		(&migration.Reconciler{Garden: garden, Clock: clock}).AddToManager,
		(&statuslabel.Reconciler{Garden: garden}).AddToManager,
		(&reference.Reconciler{Garden: garden, Live: mgr.GetAPIReader()}).AddToManager,
	} {
		if err := add(mgr, syncs); err != nil {
			return err
		}
	}
	return nil
}
