package maintenance

import (
	"testing"
	"time"
)

func at(hour, minute int) time.Time { return time.Date(2026, 1, 10, hour, minute, 0, 0, time.UTC) }

func mustWindow(t *testing.T, begin, end string) Window {
	t.Helper()
	w, err := ParseWindow(begin, end)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWindowContains(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, end string
		at         time.Time
		want       bool
	}{
		"60: an offset is applied":                     {"220000+0100", "230000+0100", at(21, 10), true},
		"61: the last 15 minutes are cut off":          {"220000+0100", "230000+0100", at(21, 50), false},
		"62: a window may span midnight":               {"233000+0000", "003000+0000", at(0, 10), true},
		"the beginning belongs to the window":          {"220000+0000", "230000+0000", at(22, 0), true},
		"the effective end belongs to the window":      {"220000+0000", "230000+0000", at(22, 45), true},
		"just after the effective end is outside":      {"220000+0000", "230000+0000", at(22, 45).Add(time.Second), false},
		"fractions of a second after the end count in": {"220000+0000", "230000+0000", at(22, 45).Add(time.Second / 2), true},
		"the cut may move the end before midnight":     {"230000+0000", "001000+0000", at(0, 1), false},
		"the rest before midnight is inside":           {"230000+0000", "001000+0000", at(23, 50), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustWindow(t, tc.begin, tc.end).Effective().Contains(tc.at); got != tc.want {
				t.Errorf("Contains(%s) = %v, want %v", tc.at, got, tc.want)
			}
		})
	}
}

func TestUntilNext(t *testing.T) {
	late := mustWindow(t, "220000+0000", "230000+0000").Effective()
	spanning := mustWindow(t, "233000+0000", "003000+0000").Effective()
	for name, tc := range map[string]struct {
		window   Window
		from     time.Time
		shift    bool
		earliest time.Time
		latest   time.Time
	}{
		"before the window":                         {late, at(10, 0), false, at(22, 0), at(22, 45)},
		"inside, without shift":                     {late, at(22, 10), false, at(46, 0), at(46, 45)},
		"inside, with shift":                        {late, at(22, 10), true, at(22, 10), at(22, 45)},
		"after the window":                          {late, at(23, 30), false, at(46, 0), at(46, 45)},
		"after midnight in a spanning window":       {spanning, at(0, 5), false, at(23, 30), at(24, 15)},
		"the same with shift":                       {spanning, at(0, 5), true, at(0, 5), at(0, 15)},
		"before midnight in a spanning window":      {spanning, at(23, 40), false, at(47, 30), at(48, 15)},
		"the same with shift, before midnight":      {spanning, at(23, 40), true, at(23, 40), at(24, 15)},
		"between two spanning windows":              {spanning, at(12, 0), false, at(23, 30), at(24, 15)},
		"no window at all, next day":                {Always, at(12, 0), false, at(24, 0), at(48, 0)},
		"the beginning itself still counts as next": {late, at(22, 0), false, at(22, 0), at(22, 45)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, fraction := range []float64{0, 0.25, 0.999999} {
				got := tc.from.Add(tc.window.UntilNext(tc.from, "a/b", tc.shift,
					func(string, time.Time) float64 { return fraction }))
				if got.Before(tc.earliest) || got.After(tc.latest) {
					t.Errorf("jitter %v: %s is outside %s..%s", fraction, got, tc.earliest, tc.latest)
				}
			}
		})
	}
}

// Skipping ahead must lead to the same times as going from occurrence to occurrence.
func TestFirstRunAfterFollowsUntilNext(t *testing.T) {
	jitter := HashJitter(7)
	for _, w := range []Window{
		Always, mustWindow(t, "220000+0000", "230000+0000").Effective(),
		mustWindow(t, "233000+0000", "003000+0000").Effective(), mustWindow(t, "210000-0700", "010000-0700").Effective(),
	} {
		run := now.Add(w.UntilNext(now, "ns/name", false, jitter))
		for range 400 {
			if got := w.FirstRunAfter(run.Add(-time.Nanosecond), "ns/name", jitter); !got.Equal(run) {
				t.Fatalf("window %v: FirstRunAfter just before %s = %s", w, run, got)
			}
			next := run.Add(w.UntilNext(run, "ns/name", false, jitter))
			if got := w.FirstRunAfter(run, "ns/name", jitter); !got.Equal(next) {
				t.Fatalf("window %v: FirstRunAfter(%s) = %s, want %s", w, run, got, next)
			}
			if !w.Contains(next) {
				t.Fatalf("window %v does not contain its run %s", w, next)
			}
			if begin, end := w.Occurrence(next); next.Before(begin) || next.After(end) {
				t.Fatalf("window %v: occurrence %s..%s does not contain %s", w, begin, end, next)
			}
			run = next
		}
	}
}

func TestHashJitterIsEven(t *testing.T) {
	const buckets, draws = 10, 20000
	jitter := HashJitter(1)
	var counts [buckets]int
	for i := range draws {
		counts[int(jitter("garden-dev/a", now.Add(time.Duration(i)*day))*buckets)]++
	}
	for i, n := range counts {
		if n < draws/buckets*9/10 || n > draws/buckets*11/10 {
			t.Errorf("bucket %d holds %d of %d draws", i, n, draws)
		}
	}
}
