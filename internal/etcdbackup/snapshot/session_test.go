package snapshot

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

func TestUntilFull(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	daily, err := cron.ParseStandard("CRON_TZ=UTC 0 11 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		last   time.Duration // Age; 0 for none.
		change func(*session)
		want   time.Duration
	}{
		"none yet":       {want: 23 * time.Hour},
		"taken in time":  {last: 59 * time.Minute, want: 23 * time.Hour},
		"one was missed": {last: 2 * time.Hour, want: 0},
		"it is running":  {last: 2 * time.Hour, change: func(s *session) { s.fullRunning = true }, want: 23 * time.Hour},
		"it waits to retry": {last: 2 * time.Hour, change: func(s *session) {
			s.fullRetry = make(chan time.Time)
		}, want: 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{Taker: &Taker{Clock: clocktesting.NewFakeClock(now), Options: Options{Schedule: daily}}}
			if tc.last > 0 {
				s.status.LastFull = &chain.Object{Created: now.Add(-tc.last)}
			}
			if tc.change != nil {
				tc.change(s)
			}
			if got := s.untilFull(); got != tc.want {
				t.Errorf("untilFull() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestIsDue(t *testing.T) {
	for name, tc := range map[string]struct {
		seen      int64
		bytes     int
		requested []int64
		want      bool
	}{
		"nothing is requested, little is pending":            {seen: 12, bytes: 99},
		"enough for a delta is pending":                      {seen: 12, bytes: 100, want: true},
		"the events of the request have not all arrived yet": {seen: 12, bytes: 10, requested: []int64{13}},
		"the requested revision is pending":                  {seen: 13, bytes: 10, requested: []int64{13}, want: true},
		"one of two requests can be answered":                {seen: 13, bytes: 10, requested: []int64{15, 13}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{Taker: &Taker{Options: Options{DeltaBytes: 100}}, seen: tc.seen}
			s.pending.records = make([]byte, tc.bytes)
			for _, r := range tc.requested {
				s.waitingDelta = append(s.waitingDelta, waiting{revision: r})
			}
			if got := s.isDue(); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
