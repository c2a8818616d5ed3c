package seed

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Health exports the conditions of the gardenlet's Seed. It reads the cache when it is scraped and costs nothing in
// between.
type Health struct {
	Seeds    client.Reader // Cached.
	SeedName string
	// Elected is closed when this process has become the leader. Others report nothing.
	Elected <-chan struct{}
}

var seedConditions = prometheus.NewDesc("hortus_gardenlet_seed_conditions",
	"Conditions of the Seed by their status: 1 for the present one.", []string{"condition", "status"}, nil)

// knownConditions have a value of the label each.
var knownConditions = []corev1beta1.ConditionType{
	corev1beta1.SeedGardenletReady, corev1beta1.SeedBackupBucketsReady, corev1beta1.SeedExtensionsReady,
	corev1beta1.SeedSystemComponentsHealthy, corev1beta1.SeedEmergencyStopShootReconciliations,
	corev1beta1.SeedControlPlanesKnown,
}

// readLimit bounds how long a scrape waits for a cache that has just been started.
const readLimit = time.Second

// Describe implements prometheus.Collector.
func (h *Health) Describe(to chan<- *prometheus.Desc) { to <- seedConditions }

// Collect implements prometheus.Collector. If the cache cannot be read, the scrape lacks these numbers.
func (h *Health) Collect(to chan<- prometheus.Metric) {
	select {
	case <-h.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	seed := &corev1beta1.Seed{}
	if err := h.Seeds.Get(ctx, client.ObjectKey{Name: h.SeedName}, seed); err != nil {
		return
	}
	for _, c := range seed.Status.Conditions {
		if slices.Contains(knownConditions, c.Type) {
			to <- prometheus.MustNewConstMetric(seedConditions, prometheus.GaugeValue, 1, string(c.Type), string(c.Status))
		}
	}
}
