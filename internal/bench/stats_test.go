package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for name, tc := range map[string]struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		"none":                  {p: 50, want: 0},
		"one is every one":      {sorted: hundred[:1], p: 99, want: 1},
		"half of two is first":  {sorted: hundred[:2], p: 50, want: 1},
		"99 of 100":             {sorted: hundred, p: 99, want: 99},
		"100 is the last":       {sorted: hundred, p: 100, want: 100},
		"0 is the first":        {sorted: hundred, p: 0, want: 1},
		"99 of ten is the last": {sorted: hundred[:10], p: 99, want: 10},
	} {
		t.Run(name, func(t *testing.T) {
			if got := percentile(tc.sorted, tc.p); got != tc.want {
				t.Errorf("percentile is %d, want %d", got, tc.want)
			}
		})
	}
}

func TestLatencySortsAndCountsInMilliseconds(t *testing.T) {
	got := latencyOf([]time.Duration{3 * time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond})
	if diff := cmp.Diff(Latency{P50: 2, P99: 3, Max: 3}, got); diff != "" {
		t.Errorf("latency (-want +got):\n%s", diff)
	}
}

func TestSummarizePlacements(t *testing.T) {
	start := time.Unix(100, 0)
	var times []time.Time
	seeds := map[string]string{}
	for i := range 9 { // One placement every 10 ms, the last quarter every 20 ms.
		at := start.Add(time.Second + time.Duration(i)*10*time.Millisecond)
		if i > 6 {
			at = at.Add(time.Duration(i-6) * 10 * time.Millisecond)
		}
		times = append(times, at)
		seeds[shootName(i)] = []string{"a", "b"}[i%2]
	}
	want := &Placement{
		Shoots: 9, Seeds: 3, StartSeconds: 1, Seconds: 0.1, PerSecond: 80, FirstQuarterPerSecond: 100,
		LastQuarterPerSecond: 50,
		Fewest:               0, Most: 5,
	}
	if diff := cmp.Diff(want, summarize(start, times, seeds, 3)); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
}

func TestUsageFromMetrics(t *testing.T) {
	got, err := parseMetrics(strings.NewReader(`# HELP process_cpu_seconds_total CPU time.
process_cpu_seconds_total 12.5
process_resident_memory_bytes 1.048576e+08
request_bucket{le="0.1"} 7
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{ResidentBytes: 100 << 20, CPU: 12500 * time.Millisecond}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if _, err := parseMetrics(strings.NewReader("other 1\n")); err == nil {
		t.Error("metrics without memory are accepted")
	}
}

func TestContinuationOfPage(t *testing.T) {
	for page, want := range map[string]string{
		`{"kind":"ShootList","metadata":{"resourceVersion":"7","continue":"abc"},"items":[]}`: "abc",
		`{"metadata":{"resourceVersion":"7"},"items":[{"a":{"continue":"no"}}]}`:              "",
	} {
		if got := continuation([]byte(page)); got != want {
			t.Errorf("continuation of %s is %q, want %q", page, got, want)
		}
	}
}

func TestSequenceOfEvent(t *testing.T) {
	managed := `{"object":{"metadata":{"managedFields":[{"fieldsV1":{"f:annotations":{"f:bench.hortus.dev/sequence":{}}}}]`
	for event, want := range map[string]int{
		managed + `,"annotations":{"bench.hortus.dev/sequence":"42"}}}}`: 42,
		managed + `}}}`:       -1,
		`{"type":"BOOKMARK"}`: -1,
	} {
		got, found := sequenceOf([]byte(event))
		if !found {
			got = -1
		}
		if got != want {
			t.Errorf("sequence of %s is %d, want %d", event, got, want)
		}
	}
}
