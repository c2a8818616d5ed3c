package shoot

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// Metrics count operations and the passes of their flows. Nil counts nothing.
type Metrics struct {
	flows   *flow.Metrics
	started *prometheus.CounterVec
	retried *prometheus.CounterVec
	ended   *prometheus.HistogramVec
}

// NewMetrics registers metrics. Timers returns those of operations in progress: see [Reconciler.Timers].
func NewMetrics(registry prometheus.Registerer, timers func() []*flow.Timers) *Metrics {
	m := &Metrics{
		flows: flow.NewMetrics(timers),
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gardenlet_operations_started_total", Help: "Operations on Shoots that have begun."},
			[]string{"operation"}),
		retried: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_gardenlet_operation_retries_total", Help: "Passes that try again after one with an error."},
			[]string{"operation"}),
		ended: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "hortus_gardenlet_operation_duration_seconds",
			Help:    "Duration of operations on Shoots from their begin to their end, by result: Succeeded or Failed.",
			Buckets: []float64{5, 15, 60, 180, 600, 1800, 3600, 4 * 3600},
		}, []string{"operation", "result"}),
	}
	registry.MustRegister(m.flows, m.started, m.retried, m.ended)
	return m
}

func (m *Metrics) start(operation corev1beta1.LastOperationType) {
	if m != nil {
		m.started.WithLabelValues(string(operation)).Inc()
	}
}

func (m *Metrics) retry(operation corev1beta1.LastOperationType) {
	if m != nil {
		m.retried.WithLabelValues(string(operation)).Inc()
	}
}

func (m *Metrics) end(operation *corev1beta1.LastOperation, took time.Duration) {
	if m != nil {
		m.ended.WithLabelValues(string(operation.Type), string(operation.State)).Observe(took.Seconds())
	}
}

// ofFlows may be nil.
func (m *Metrics) ofFlows() *flow.Metrics {
	if m == nil {
		return nil
	}
	return m.flows
}

// Flows, as named in metrics. Flows of operations have the names of these, see flowName.
const (
	flowForceDelete    = "force-delete"
	flowPrepare        = "prepare"         // A seed prepares for a control plane that another one still runs.
	flowStopLeftover   = "stop-leftover"   // Stops the remains of a control plane that another seed has taken over.
	flowRemoveLeftover = "remove-leftover" // Removes these remains, since the other seed is done.
)

// flowName is the name of the flow that graphFor returns.
func flowName(operation corev1beta1.LastOperationType, shoot *corev1beta1.Shoot) string {
	if operation == corev1beta1.LastOperationTypeDelete && forced(shoot) {
		return flowForceDelete
	}
	return strings.ToLower(string(operation))
}

// Timers returns the timers of all operations in progress.
func (r *Reconciler) Timers() []*flow.Timers {
	r.mu.Lock()
	defer r.mu.Unlock()
	timers := make([]*flow.Timers, 0, len(r.timers))
	for _, t := range r.timers {
		timers = append(timers, t)
	}
	return timers
}

// Fleet counts Shoots by state. It reads the cache when it is scraped and costs nothing in between.
type Fleet struct {
	Shoots   client.Reader // Cached.
	SeedName string
	// Elected is closed when this process has become the leader. Others report nothing, so that sums are correct.
	Elected <-chan struct{}
}

var (
	shootsByOperation = prometheus.NewDesc("hortus_gardenlet_shoots",
		"Number of Shoots on this seed by their last operation and its state.", []string{"operation", "state"}, nil)
	shootsByCondition = prometheus.NewDesc("hortus_gardenlet_shoot_conditions",
		"Number of Shoots on this seed by condition or constraint and its status.", []string{"condition", "status"}, nil)
)

// knownConditions have a value of the label each. Extensions may add others, which are not counted.
var knownConditions = append(slices.Clone(judgedByCare),
	corev1beta1.ShootObservabilityComponentsHealthy, corev1beta1.ShootCACertificateValiditiesAcceptable,
	corev1beta1.ShootManualInPlaceWorkersUpdated, corev1beta1.ShootCRDsWithProblematicConversionWebhooks,
	corev1beta1.ShootReadyForMigration, corev1beta1.ShootAutomaticCredentialsRotationPossible)

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(to chan<- *prometheus.Desc) {
	to <- shootsByOperation
	to <- shootsByCondition
}

// readLimit bounds how long a scrape waits for a cache that has just been started.
const readLimit = time.Second

// Collect implements prometheus.Collector. If the cache cannot be read, the scrape lacks these numbers.
func (f *Fleet) Collect(to chan<- prometheus.Metric) {
	select {
	case <-f.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	list := &corev1beta1.ShootList{}
	if err := f.Shoots.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for desc, counts := range count(list.Items, f.SeedName) {
		for labels, n := range counts {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels[:]...)
		}
	}
}

// count counts the Shoots that the seed is responsible for.
func count(shoots []corev1beta1.Shoot, seedName string) map[*prometheus.Desc]map[[2]string]int {
	operations, conditions := map[[2]string]int{}, map[[2]string]int{}
	for i := range shoots {
		if responsibleSeed(&shoots[i]) != seedName {
			continue
		}
		status := &shoots[i].Status
		var key [2]string // Empty before the first operation.
		if last := status.LastOperation; last != nil {
			key = [2]string{string(last.Type), string(last.State)}
		}
		operations[key]++
		for _, list := range [][]corev1beta1.Condition{status.Conditions, status.Constraints} {
			for _, c := range list {
				if slices.Contains(knownConditions, c.Type) {
					conditions[[2]string{string(c.Type), string(c.Status)}]++
				}
			}
		}
	}
	return map[*prometheus.Desc]map[[2]string]int{shootsByOperation: operations, shootsByCondition: conditions}
}
