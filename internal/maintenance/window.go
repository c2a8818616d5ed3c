package maintenance

import (
	"fmt"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	day = 24 * time.Hour
	// tail is cut off the end of every window, so that a maintenance started last still ends inside it.
	tail = 15 * time.Minute
	// windowLayout is the format of a window's ends, for example 220000+0100.
	windowLayout = "150405-0700"
)

// Bounds of the configured length of a maintenance time window, both inclusive.
const (
	MinWindow = 30 * time.Minute
	MaxWindow = 6 * time.Hour
)

// Window is a daily interval in UTC, both ends inclusive. An End before Begin is on the next day.
type Window struct {
	Begin, End time.Duration // Time since midnight, in whole seconds, less than a day.
}

// Always is the window of a Shoot without one.
var Always = Window{End: day - time.Second}

// ParseWindow returns the window as configured. It does not check its length; see MinWindow and MaxWindow.
func ParseWindow(begin, end string) (Window, error) {
	b, err := time.Parse(windowLayout, begin)
	if err != nil {
		return Window{}, fmt.Errorf("begin %q is not of the form HHMMSS+ZZZZ", begin)
	}
	e, err := time.Parse(windowLayout, end)
	if err != nil {
		return Window{}, fmt.Errorf("end %q is not of the form HHMMSS+ZZZZ", end)
	}
	return Window{Begin: timeOfDay(b), End: timeOfDay(e)}, nil
}

func timeOfDay(t time.Time) time.Duration {
	h, m, s := t.UTC().Clock()
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second
}

func midnight(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// Effective returns the part of a configured window in which a maintenance may start.
func (w Window) Effective() Window {
	return Window{Begin: w.Begin, End: (w.End - tail + day) % day}
}

// Duration returns the time from Begin to End.
func (w Window) Duration() time.Duration {
	if w.End <= w.Begin {
		return w.End - w.Begin + day
	}
	return w.End - w.Begin
}

// Contains reports whether t, truncated to seconds, is in the window.
func (w Window) Contains(t time.Time) bool {
	at := timeOfDay(t)
	if w.End < w.Begin {
		return at <= w.End || at >= w.Begin
	}
	return w.Begin <= at && at <= w.End
}

// Occurrence returns the begin and end of the occurrence that contains t, else of the next one.
func (w Window) Occurrence(t time.Time) (begin, end time.Time) {
	begin = midnight(t).Add(w.Begin)
	end = begin.Add(w.Duration())
	switch {
	case w.End < w.Begin && w.Contains(t) && timeOfDay(t) <= w.End:
		begin, end = begin.Add(-day), end.Add(-day)
	case !w.Contains(t) && end.Before(t):
		begin, end = begin.Add(day), end.Add(day)
	}
	return begin, end
}

// Jitter places a Shoot's maintenance inside its window: it returns a number in (0, 1) for a Shoot's key and the begin
// of one occurrence of its window. It must be pure, so that a plan can compute the exact time in advance.
type Jitter func(key string, begin time.Time) float64

// HashJitter spreads Shoots evenly, differently for each day and each seed.
func HashJitter(seed uint64) Jitter {
	return func(key string, begin time.Time) float64 {
		// FNV-1a over the key, then the finalizer of MurmurHash3, which spreads what FNV leaves alike.
		x := uint64(0xcbf29ce484222325) ^ seed*0x9e3779b97f4a7c15 ^ uint64(begin.Unix())*0xd6e8feb86659fd93
		for i := range len(key) {
			x = (x ^ uint64(key[i])) * 0x100000001b3
		}
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		x ^= x >> 33
		return (float64(x>>11) + 0.5) / (1 << 53)
	}
}

// UntilNext returns how long to wait, counted from the time from, until a random instant in the next occurrence of the
// window. If from is inside an occurrence, the instant is in the rest of it with shift, and in the next day's
// occurrence without.
func (w Window) UntilNext(from time.Time, key string, shift bool, jitter Jitter) time.Duration {
	begin := midnight(from).Add(w.Begin)
	end := midnight(from).Add(w.End)
	if w.End <= w.Begin {
		end = end.Add(day)
	}
	if shift && w.Contains(from) {
		if w.End < w.Begin && timeOfDay(from) <= w.End {
			end = end.Add(-day) // Seen after midnight: the occurrence began yesterday.
		}
		begin = from
		if end.Before(begin) { // Inside the last second.
			end = begin
		}
	} else if begin.Before(from) && (w.Contains(from) || from.After(end)) {
		begin, end = begin.Add(day), end.Add(day)
	}
	return begin.Sub(from) + time.Duration(jitter(key, begin)*float64(end.Sub(begin)))
}

// FirstRunAfter returns the first time after t at which a maintenance that is scheduled by UntilNext in every
// occurrence would start.
func (w Window) FirstRunAfter(t time.Time, key string, jitter Jitter) time.Time {
	for begin := midnight(t).Add(w.Begin - day); ; begin = begin.Add(day) {
		if run := begin.Add(time.Duration(jitter(key, begin) * float64(w.Duration()))); run.After(t) {
			return run
		}
	}
}

// WindowOf returns the part of the Shoot's window in which a maintenance may start. A Shoot without a valid window is
// maintained at any time.
func WindowOf(shoot *corev1beta1.Shoot) Window {
	if m := shoot.Spec.Maintenance; m != nil && m.TimeWindow != nil {
		if w, err := ParseWindow(m.TimeWindow.Begin, m.TimeWindow.End); err == nil {
			return w.Effective()
		}
	}
	return Always
}
