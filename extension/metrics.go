package extension

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Results of calls of an actuator, as values of the metric's label.
const (
	resultDone    = "done"
	resultWaiting = "waiting"
	resultFailed  = "failed"
)

// actuations is one metric of a process, for all kinds that it acts on, as are those of controller-runtime.
var actuations = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "hortus_extension_actuations_total",
	Help: "Calls of actuators by kind, operation and result: done, waiting or failed.",
}, []string{"kind", "operation", "result"})

func init() { metrics.Registry.MustRegister(actuations) }

func countActuation(kind string, op corev1beta1.LastOperationType, result string) {
	actuations.WithLabelValues(kind, string(op), result).Inc()
}
