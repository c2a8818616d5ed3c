package maintenance

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Schedules are the hibernation schedules of a Shoot, parsed.
type Schedules []schedule

type schedule struct {
	cron      cron.Schedule
	location  *time.Location
	hibernate bool
}

// Fire is a time at which a schedule fires.
type Fire struct {
	At        time.Time
	Hibernate bool // False: wakes up.
}

// ParseSchedules parses hibernation schedules. Expressions have five fields or are descriptors such as @daily.
func ParseSchedules(list []corev1beta1.HibernationSchedule) (Schedules, error) {
	var schedules Schedules
	for i, s := range list {
		location := time.UTC
		if s.Location != nil {
			var err error
			if location, err = time.LoadLocation(*s.Location); err != nil {
				return nil, fmt.Errorf("hibernation schedule %d: %w", i, err)
			}
		}
		for _, entry := range []struct {
			expression *string
			hibernate  bool
		}{{s.Start, true}, {s.End, false}} {
			if entry.expression == nil {
				continue
			}
			parsed, err := cron.ParseStandard(*entry.expression)
			if err != nil {
				return nil, fmt.Errorf("hibernation schedule %d: parse %q: %w", i, *entry.expression, err)
			}
			schedules = append(schedules, schedule{parsed, location, entry.hibernate})
		}
	}
	return schedules, nil
}

// Next returns the first fire strictly after t. If several schedules fire at the same time, the last in the list wins.
func (s Schedules) Next(t time.Time) (next Fire, ok bool) {
	for _, entry := range s {
		at := entry.cron.Next(t.In(entry.location))
		if !at.IsZero() && (!ok || !at.After(next.At)) {
			next, ok = Fire{at.UTC(), entry.hibernate}, true
		}
	}
	return next, ok
}

// Bounds of how far back a missed fire is looked for.
const (
	// DefaultTriggerDeadline is how late a missed fire may still be made up for.
	DefaultTriggerDeadline = 2 * time.Hour
	maxLookBack            = 7 * day
)

// Last returns the most recent fire after since and up to now. It looks back at most by deadline, and never more than
// one week.
func (s Schedules) Last(since, now time.Time, deadline time.Duration) (last Fire, ok bool) {
	earliest := now.Add(-min(deadline, maxLookBack))
	if since.After(earliest) {
		earliest = since
	}
	for fire, more := s.Next(earliest); more && !fire.At.After(now); fire, more = s.Next(fire.At) {
		last, ok = fire, true
	}
	return last, ok
}
