package keeper

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestScheduleOfAFile(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	otherwise, err := parseSchedule("0 5 * * *")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "full-schedule")
	clock, logged := clocktesting.NewFakePassiveClock(start), &sink{}
	s := &fileSchedule{path: path, otherwise: otherwise, clock: clock, log: logr.New(logged)}
	for i, step := range []struct {
		name, content string // Without content there is no file.
		from, want    string
		lines         int
	}{
		{name: "without a file the flag applies, and what was missed counts", from: "28T12:00", want: "01T05:00", lines: 1},
		{name: "it is reported once", from: "01T12:00", want: "02T05:00", lines: 1},
		{name: "a file applies from now on", content: "30 9 * * *\n", from: "28T12:00", want: "02T09:30", lines: 2},
		{name: "a broken file", content: "tomorrow", from: "01T12:00", want: "02T05:00", lines: 3},
		{name: "it is reported once, too", content: "tomorrow", from: "01T12:00", want: "02T05:00", lines: 3},
		{name: "an empty file", content: " ", from: "01T12:00", want: "02T05:00", lines: 4},
		{name: "another time zone", content: "CRON_TZ=Asia/Tokyo 0 1 * * *", from: "01T12:00", want: "02T05:00", lines: 5},
		{name: "no such day", content: "0 5 30 2 *", from: "01T12:00", want: "02T05:00", lines: 6},
		{name: "a corrected file", content: "0 13 * * *", from: "01T12:00", want: "01T13:00", lines: 7},
		{name: "a time in the future", content: "0 13 * * *", from: "02T14:00", want: "03T13:00", lines: 7},
	} {
		if step.content != "" {
			if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		clock.SetTime(start.Add(time.Duration(i) * time.Second))
		from, err := time.Parse("02T15:04", step.from)
		if err != nil {
			t.Fatal(err)
		}
		from = from.AddDate(2026, 2, 0) // March.
		if step.from == "28T12:00" {
			from = from.AddDate(0, -1, 0)
		}
		if got := s.Next(from).Format("02T15:04"); got != step.want || logged.lines != step.lines {
			t.Errorf("%s: %s with %d lines logged, want %s with %d", step.name, got, logged.lines, step.want, step.lines)
		}
	}
}

// sink counts lines.
type sink struct{ lines int }

func (s *sink) Init(logr.RuntimeInfo)          {}
func (s *sink) Enabled(int) bool               { return true }
func (s *sink) Info(int, string, ...any)       { s.lines++ }
func (s *sink) Error(error, string, ...any)    { s.lines++ }
func (s *sink) WithValues(...any) logr.LogSink { return s }
func (s *sink) WithName(string) logr.LogSink   { return s }
