package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/robfig/cron/v3"
	"k8s.io/utils/clock"
)

// maxScheduleBytes is more than any schedule has.
const maxScheduleBytes = 1 << 10

// parseSchedule parses a cron schedule in UTC.
func parseSchedule(value string) (cron.Schedule, error) {
	if strings.Contains(value, "TZ=") {
		return nil, errors.New("a time zone is not supported, all times are in UTC")
	}
	parsed, err := cron.ParseStandard("CRON_TZ=UTC " + value)
	if err == nil && parsed.Next(time.Now()).IsZero() {
		err = errors.New("there is no such day")
	}
	return parsed, err
}

// fileSchedule is a schedule in a file, which each call of Next reads. While the file is missing or invalid, otherwise
// applies. It is safe for concurrent use.
type fileSchedule struct {
	path      string
	otherwise cron.Schedule
	clock     clock.PassiveClock
	log       logr.Logger

	mu      sync.Mutex
	current cron.Schedule // Nil before the first reading.
	// seen is the result of the last reading: a schedule, or the reason why otherwise applies.
	seen string
	// changed is the time at which current replaced another schedule; zero as long as the first one applies.
	changed time.Time
}

// Next returns the first time after t, and after the last change of the schedule: earlier times of a new schedule have
// not been missed.
func (s *fileSchedule) Next(t time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read()
	if t.Before(s.changed) {
		t = s.changed
	}
	return s.current.Next(t)
}

// read reads the file, and logs what has changed.
func (s *fileSchedule) read() {
	value, err := readSchedule(s.path)
	seen, parsed := value, s.otherwise
	if err == nil && value == s.seen && s.current != nil {
		return
	}
	if err == nil {
		if parsed, err = parseSchedule(value); err != nil {
			err, parsed = fmt.Errorf("%s: invalid value: %q: %w", s.path, value, err), s.otherwise
		}
	}
	if err != nil {
		seen = err.Error()
	}
	if s.current != nil && seen == s.seen {
		return
	}
	if s.current != nil {
		s.changed = s.clock.Now()
	}
	s.current, s.seen = parsed, seen
	if err != nil {
		s.log.Info("The schedule file cannot be used, --full-schedule or its default applies", "reason", seen)
		return
	}
	s.log.Info("Full snapshots are scheduled by the file", "schedule", value)
}

func readSchedule(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read schedule: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxScheduleBytes))
	if err != nil {
		return "", fmt.Errorf("read schedule: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
