package plan

import (
	"bytes"
	"strings"
	"testing"
	"time"

	ics "github.com/arran4/golang-ical"

	"hortus.dev/hortus/internal/maintenance"
)

// Another parser must accept the calendar, which must contain the changes of the plan.
func TestCalendarOpens(t *testing.T) {
	begin := time.Date(2026, 5, 14, 22, 0, 0, 0, time.UTC)
	window := Interval{begin, begin.Add(45 * time.Minute)}
	change := Change{At: begin, Window: window, Subject: maintenance.ControlPlane, From: "1.25.9", To: "1.26.0",
		Reason: "Kubernetes version expired; a text, long enough to be folded, with ünïcödé \\ and\nmore than one line"}
	image := change
	image.Subject, image.Pool, image.Image = maintenance.PoolImage, "päckchen", "os"
	p := &Plan{At: begin.AddDate(0, -1, 0), Until: begin.AddDate(1, 0, 0), Shoots: []ShootPlan{{
		Namespace: "garden-dev", Name: "demo", Changes: []Change{change, image},
		DeadEnds: []DeadEnd{{
			Since: begin, Subject: maintenance.ControlPlane, Version: "1.24.12", Reason: "no 1.25.x", Fix: "offer one",
			Deadline: &begin,
		}},
	}}}
	var out bytes.Buffer
	if err := WriteCalendar(&out, p); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\r\n"), "\r\n") {
		if len(line) > maxLine || strings.ContainsAny(line, "\r\n") {
			t.Errorf("bad line of %d bytes: %q", len(line), line)
		}
	}
	calendar, err := ics.ParseCalendar(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	events := calendar.Events()
	if len(events) != 2 {
		t.Fatalf("%d events, want one for the window and one for the dead end", len(events))
	}
	start, err := events[0].GetStartAt()
	if err != nil || !start.Equal(begin) {
		t.Errorf("start = %s, %v", start, err)
	}
	end, err := events[0].GetEndAt()
	if err != nil || !end.Equal(window.End) {
		t.Errorf("end = %s, %v", end, err)
	}
	summary := events[0].GetProperty(ics.ComponentPropertySummary).Value
	if want := "garden-dev/demo: kubernetes 1.25.9 to 1.26.0, image os of pool päckchen 1.25.9 to 1.26.0"; ics.FromText(summary) != want {
		t.Errorf("summary = %q, want %q", ics.FromText(summary), want)
	}
	if text := ics.FromText(events[0].GetProperty(ics.ComponentPropertyDescription).Value); !strings.Contains(text,
		change.Reason) {
		t.Errorf("description = %q", text)
	}
	if day, err := events[1].GetAllDayStartAt(); err != nil || day.Format(time.DateOnly) != "2026-05-14" {
		t.Errorf("dead end on %s, %v", day, err)
	}
	if events[0].Id() == events[1].Id() || events[0].Id() == "" {
		t.Error("events have no unique IDs")
	}
}
