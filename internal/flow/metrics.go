package flow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of passes and of steps, as metrics name them.
const (
	resultComplete = "complete" // Of passes: every step is done or skipped.
	resultDone     = "done"     // Of steps.
	resultWaiting  = "waiting"
	resultFailed   = "failed"
)

var (
	waitingSteps = prometheus.NewDesc("hortus_flow_waiting_steps",
		"Number of steps that wait, by what kind of thing they wait for.", []string{"flow", "step", "kind"}, nil)
	oldestWait = prometheus.NewDesc("hortus_flow_oldest_wait_start_timestamp_seconds",
		"Start of the longest current wait.", []string{"flow", "step", "kind"}, nil)
)

// Metrics count passes and steps of all flows of a process. Waits are read from the [Timers] when they are scraped, so
// that they cost nothing in between. Nil counts nothing.
type Metrics struct {
	timers func() []*Timers

	running  *prometheus.GaugeVec
	passes   *prometheus.HistogramVec
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	waited   *prometheus.HistogramVec
}

// NewMetrics returns metrics to be registered. The function timers returns the Timers of all operations in progress.
func NewMetrics(timers func() []*Timers) *Metrics {
	return &Metrics{
		timers: timers,
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hortus_flow_running_passes", Help: "Number of passes that run now."}, []string{"flow"}),
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hortus_flow_pass_duration_seconds",
			Help: "Duration of passes by result: complete, waiting or failed.", Buckets: []float64{.1, .5, 1, 5, 15, 60},
		}, []string{"flow", "result"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hortus_flow_step_runs_total", Help: "Runs of steps by result: done, waiting or failed."},
			[]string{"flow", "step", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hortus_flow_step_run_duration_seconds", Help: "Duration of one run of a step, without its waits.",
			Buckets: []float64{.01, .1, 1, 10},
		}, []string{"flow", "step"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hortus_flow_step_wait_duration_seconds", Help: "How long steps had waited when they became done.",
			Buckets: []float64{1, 5, 15, 60, 180, 600, 3600},
		}, []string{"flow", "step"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.running, m.passes, m.runs, m.duration, m.waited} {
		c.Describe(to)
	}
	to <- waitingSteps
	to <- oldestWait
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.running, m.passes, m.runs, m.duration, m.waited} {
		c.Collect(to)
	}
	type key struct{ flow, step, kind string }
	type group struct {
		steps  int
		oldest time.Time
	}
	groups := map[key]group{}
	for _, t := range m.timers() {
		for step, w := range t.waits() {
			k := key{w.flow, step, string(w.kind)}
			g := groups[k]
			g.steps++
			if g.oldest.IsZero() || w.first.Before(g.oldest) {
				g.oldest = w.first
			}
			groups[k] = g
		}
	}
	for k, g := range groups {
		since := float64(g.oldest.UnixMilli()) / 1000
		to <- prometheus.MustNewConstMetric(waitingSteps, prometheus.GaugeValue, float64(g.steps), k.flow, k.step, k.kind)
		to <- prometheus.MustNewConstMetric(oldestWait, prometheus.GaugeValue, since, k.flow, k.step, k.kind)
	}
}

// began counts a pass that starts. The function that it returns is called with its result.
func (o Options) began() func(Result) {
	m := o.Metrics
	if m == nil {
		return func(Result) {}
	}
	start := o.Clock.Now()
	m.running.WithLabelValues(o.Flow).Inc()
	return func(r Result) {
		m.running.WithLabelValues(o.Flow).Dec()
		result := resultWaiting
		switch {
		case len(r.Failed) > 0:
			result = resultFailed
		case r.Complete():
			result = resultComplete
		}
		m.passes.WithLabelValues(o.Flow, result).Observe(o.Clock.Since(start).Seconds())
	}
}

// ran counts a step that has run for some time. It had waited before, or not: 0.
func (o Options) ran(step string, s *state, took, waited time.Duration) {
	m := o.Metrics
	if m == nil {
		return
	}
	result := resultWaiting
	switch {
	case s.err != nil:
		result = resultFailed
	case s.outcome.done:
		result = resultDone
	}
	m.runs.WithLabelValues(o.Flow, step, result).Inc()
	m.duration.WithLabelValues(o.Flow, step).Observe(took.Seconds())
	if result == resultDone && waited > 0 {
		m.waited.WithLabelValues(o.Flow, step).Observe(waited.Seconds())
	}
}

// now is the time for metrics; zero without them.
func (o Options) now() time.Time {
	if o.Metrics == nil {
		return time.Time{}
	}
	return o.Clock.Now()
}

// waits returns what each step waits for, and since when it waits at all.
func (t *Timers) waits() map[string]waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	waits := map[string]waiting{}
	for key, w := range t.since {
		other, found := t.since[wait{key.step, !key.ownLimit}]
		if found && key.ownLimit {
			continue // The wait with the step's own limit is the present one: it ends when one of this kind begins.
		}
		if found && other.first.Before(w.first) {
			w.first = other.first
		}
		waits[key.step] = w
	}
	return waits
}
