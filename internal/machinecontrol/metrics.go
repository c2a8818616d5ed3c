package machinecontrol

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// selection is the metrics of a registry whose names begin with a prefix.
type selection struct {
	prometheus.Gatherer
	prefix string
}

// Gather implements prometheus.Gatherer.
func (s selection) Gather() ([]*dto.MetricFamily, error) {
	families, err := s.Gatherer.Gather()
	var selected []*dto.MetricFamily
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), s.prefix) {
			selected = append(selected, f)
		}
	}
	return selected, err
}

// gatherer returns the metrics of all libraries that the machine-controller-manager uses. They are in different
// registries: its own metrics and those of the process in Prometheus' registry, those of client-go in the registry of
// the library that was initialized first, which is Kubernetes' component base for queues and controller-runtime for
// requests. All other metrics in the last two belong to other commands of the same program.
func gatherer() prometheus.Gatherer {
	const queues, requests = "workqueue_", "rest_client_"
	g := prometheus.Gatherers{prometheus.DefaultGatherer}
	for _, registry := range []prometheus.Gatherer{legacyregistry.DefaultGatherer, ctrlmetrics.Registry} {
		g = append(g, selection{registry, queues}, selection{registry, requests})
	}
	return g
}

func metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(gatherer(), promhttp.HandlerOpts{}))
	return mux
}
