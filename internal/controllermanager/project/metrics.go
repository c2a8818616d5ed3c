package project

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Fleet counts Projects. It reads the cache when it is scraped and costs nothing in between.
type Fleet struct {
	Garden client.Reader // Cached.
	// Elected is closed when this process has become the leader. Others report nothing, so that sums are correct.
	Elected <-chan struct{}
}

var (
	projectsByPhase = prometheus.NewDesc("hortus_controller_manager_projects",
		"Number of Projects by phase; it is empty before the first reconciliation.", []string{"phase"}, nil)
	staleProjects = prometheus.NewDesc("hortus_controller_manager_stale_projects",
		"Number of Projects that nobody uses, which will be deleted.", nil, nil)
)

// readLimit bounds how long a scrape waits for a cache that has just been started.
const readLimit = time.Second

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(to chan<- *prometheus.Desc) {
	to <- projectsByPhase
	to <- staleProjects
}

// Collect implements prometheus.Collector. If the cache cannot be read, the scrape lacks these numbers.
func (f *Fleet) Collect(to chan<- prometheus.Metric) {
	select {
	case <-f.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	list := &corev1beta1.ProjectList{}
	if err := f.Garden.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	phases, stale := map[corev1beta1.ProjectPhase]int{}, 0
	for i := range list.Items {
		phases[list.Items[i].Status.Phase]++
		if list.Items[i].Status.StaleSinceTimestamp != nil {
			stale++
		}
	}
	for phase, n := range phases {
		to <- prometheus.MustNewConstMetric(projectsByPhase, prometheus.GaugeValue, float64(n), string(phase))
	}
	to <- prometheus.MustNewConstMetric(staleProjects, prometheus.GaugeValue, float64(stale))
}
