package bench

import (
	"slices"
	"time"
)

// Latency summarizes the durations of operations, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50Milliseconds"`
	P99 float64 `json:"p99Milliseconds"`
	Max float64 `json:"maxMilliseconds"`
}

// latencyOf summarizes durations. It sorts them.
func latencyOf(durations []time.Duration) Latency {
	slices.Sort(durations)
	return Latency{
		P50: milliseconds(percentile(durations, 50)),
		P99: milliseconds(percentile(durations, 99)),
		Max: milliseconds(percentile(durations, 100)),
	}
}

// percentile returns the smallest of the sorted durations that at least p of 100 do not exceed (nearest rank), 0 if
// there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond is a rate, 0 for no time.
func perSecond(count int, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(count) / elapsed.Seconds()
}
