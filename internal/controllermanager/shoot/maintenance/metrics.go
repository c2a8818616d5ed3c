package maintenance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	decision "hortus.dev/hortus/internal/maintenance"
)

// Results of maintenances and their changes, as label values of metrics.
const (
	resultApplied    = "applied"
	resultUnchanged  = "unchanged"  // Of maintenances: nothing was due.
	resultIncomplete = "incomplete" // Of maintenances: a due change is impossible.
	resultImpossible = "impossible" // Of changes: due, but there is no version to change to, or it is blocked.
	resultRefused    = "refused"    // Rejected by the API server.
	resultError      = "error"      // Of maintenances: will be retried.
)

// Metrics count maintenances and their changes. Nil counts nothing.
type Metrics struct {
	maintenances *prometheus.CounterVec
	changes      *prometheus.CounterVec
}

// NewMetrics creates and registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		maintenances: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_controller_manager_maintenances_total",
			Help: "Maintenances of Shoots by result: applied, unchanged, incomplete, refused or error.",
		}, []string{"result"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_controller_manager_maintenance_changes_total",
			Help: "Changes that were due in maintenances, by kind, cause and result: applied, impossible or refused.",
		}, []string{"kind", "cause", "result"}),
	}
	registry.MustRegister(m.maintenances, m.changes)
	return m
}

// maintained counts a maintenance that was written or rejected.
func (m *Metrics) maintained(o *decision.Outcome, refused bool) {
	if m == nil {
		return
	}
	result := resultUnchanged
	switch {
	case refused:
		result = resultRefused
	case o.Failed(), o.Decision.ImageErr != nil:
		result = resultIncomplete
	case o.Record():
		result = resultApplied
	}
	m.maintenances.WithLabelValues(result).Inc()
	for _, c := range changesOf(o) {
		switch {
		case c.impossible:
			result = resultImpossible
		case refused:
			result = resultRefused
		default:
			result = resultApplied
		}
		m.changes.WithLabelValues(c.kind, c.cause, result).Inc()
	}
}

func (m *Metrics) failed() {
	if m != nil {
		m.maintenances.WithLabelValues(resultError).Inc()
	}
}

// Kinds of changes other than versions, whose kinds are their subjects. Each has a fixed cause.
const (
	kindCredential   = "Credential"
	kindOther        = "Other" // Fields that a new version does not support, and operations that are started.
	causeCredential  = "period"
	causeOtherChange = "version"
)

// change is a due change.
type change struct {
	kind, cause string
	impossible  bool
}

// changesOf returns the changes of a maintenance.
func changesOf(o *decision.Outcome) []change {
	var changes []change
	for _, i := range o.Decision.Items {
		changes = append(changes, change{string(i.Subject), string(i.Cause), i.Err != nil})
	}
	for _, c := range o.Credentials {
		changes = append(changes, change{kindCredential, causeCredential, c.Err != ""})
	}
	for range o.Operations {
		changes = append(changes, change{kindOther, causeOtherChange, false})
	}
	return changes
}

var dueChanges = prometheus.NewDesc("hortus_controller_manager_maintenance_due_changes",
	"Number of updates of versions that are due in all Shoots, by kind, cause and whether they are possible.",
	[]string{"kind", "cause", "possible"}, nil)

// Due exports the number of due version updates. It decides on each scrape, from the cache, and costs nothing in
// between.
type Due struct {
	Garden   client.Reader // Cached.
	Clock    clock.PassiveClock
	Profiles *Profiles
	// Elected is closed when this process becomes the leader. Only the leader exports numbers, so that sums are correct.
	Elected <-chan struct{}
}

// Describe implements prometheus.Collector.
func (d *Due) Describe(to chan<- *prometheus.Desc) { to <- dueChanges }

// readLimit bounds how long a scrape waits for a cache that has just been started.
const readLimit = time.Second

// Collect implements prometheus.Collector. If the cache cannot be read, the scrape lacks this metric.
func (d *Due) Collect(to chan<- prometheus.Metric) {
	select {
	case <-d.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	list := &corev1beta1.ShootList{}
	if err := d.Garden.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil { // Decisions only read.
		return
	}
	for c, n := range d.count(ctx, list.Items) {
		possible := "true"
		if c.impossible {
			possible = "false"
		}
		to <- prometheus.MustNewConstMetric(dueChanges, prometheus.GaugeValue, float64(n), c.kind, c.cause, possible)
	}
}

// count decides for every Shoot. Shoots whose profile cannot be read are omitted. Each profile is read once.
func (d *Due) count(ctx context.Context, shoots []corev1beta1.Shoot) map[change]int {
	type reference struct{ kind, namespace, name string }
	counts, now, deciders := map[change]int{}, d.Clock.Now(), map[reference]*decision.Decider{}
	for i := range shoots {
		shoot := &shoots[i]
		if shoot.DeletionTimestamp != nil {
			continue
		}
		ref := reference{name: ptr.Deref(shoot.Spec.CloudProfileName, "")}
		if p := shoot.Spec.CloudProfile; p != nil {
			ref = reference{kind: p.Kind, namespace: shoot.Namespace, name: p.Name}
		}
		decider, known := deciders[ref]
		if !known {
			if profile, err := d.Profiles.Of(ctx, d.Garden, shoot); err == nil {
				decider = decision.NewDecider(profile) // Caches decisions that Shoots have in common.
			}
			deciders[ref] = decider
		}
		if decider == nil {
			continue
		}
		cluster := decision.ClusterOf(shoot)
		made := decider.Decide(&cluster, now)
		for _, item := range made.Items {
			counts[change{string(item.Subject), string(item.Cause), item.Err != nil}]++
		}
	}
	return counts
}
