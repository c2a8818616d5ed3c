package plan

import (
	"sort"
	"strings"
	"sync"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/maintenance"
)

// timeline is when a Shoot hibernates, between two times.
type timeline struct {
	initially bool
	flips     []time.Time // Ascending; at each the state turns.
}

// at reports whether the Shoot hibernates at t.
func (l *timeline) at(t time.Time) bool {
	flipped := sort.Search(len(l.flips), func(i int) bool { return l.flips[i].After(t) })
	return l.initially != (flipped%2 == 1)
}

// everAwakeAfter reports whether the Shoot is awake at t or at any time after it.
func (l *timeline) everAwakeAfter(t time.Time) bool {
	return !l.at(t) || len(l.flips) > 0 && l.flips[len(l.flips)-1].After(t)
}

// timelines makes each timeline once: many Shoots share their schedules. Safe for concurrent use.
type timelines struct {
	from, to time.Time
	mu       sync.Mutex
	made     map[string]*timeline
}

func newTimelines(from, to time.Time) *timelines {
	return &timelines{from: from, to: to, made: map[string]*timeline{}}
}

func (l *timelines) of(h *corev1beta1.Hibernation) *timeline {
	key := hibernationKey(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made[key] == nil {
		l.made[key] = newTimeline(h, l.from, l.to)
	}
	return l.made[key]
}

func hibernationKey(h *corev1beta1.Hibernation) string {
	var b strings.Builder
	if h.Enabled != nil && *h.Enabled {
		b.WriteString("on")
	}
	for _, s := range h.Schedules {
		for _, field := range []*string{s.Start, s.End, s.Location} {
			b.WriteByte(0)
			if field != nil {
				b.WriteString(*field)
			}
		}
	}
	return b.String()
}

func newTimeline(h *corev1beta1.Hibernation, from, to time.Time) *timeline {
	l := &timeline{initially: h.Enabled != nil && *h.Enabled}
	state := l.initially
	fires, err := maintenance.ParseSchedules(h.Schedules)
	if err != nil {
		return l // The API server rejects such schedules; without them the state never changes.
	}
	for t := from; ; {
		fire, ok := fires.Next(t)
		if !ok || fire.At.After(to) {
			return l
		}
		if fire.Hibernate != state {
			state = fire.Hibernate
			l.flips = append(l.flips, fire.At)
		}
		t = fire.At
	}
}
