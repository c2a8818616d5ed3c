package plan

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var span = regexp.MustCompile(`^(\d+)(y|mo|w|d)$`)

// ParseTime parses a point in time: RFC 3339, or a date, which means midnight UTC.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a date such as 2026-05-14 nor a time such as 2026-05-14T22:00:00Z", text)
}

// ParseUntil parses the end of a plan that begins at from: a duration such as 2y, 6mo, 2w, 90d or 36h, or a point in
// time.
func ParseUntil(text string, from time.Time) (time.Time, error) {
	if m := span.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return time.Time{}, fmt.Errorf("%q is too long: %w", text, err)
		}
		switch m[2] {
		case "y":
			return from.AddDate(n, 0, 0), nil
		case "mo":
			return from.AddDate(0, n, 0), nil
		case "w":
			return from.AddDate(0, 0, 7*n), nil
		}
		return from.AddDate(0, 0, n), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return from.Add(d), nil
	}
	t, err := ParseTime(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, nor a span such as 2y, 6mo, 2w, 90d or 36h", err)
	}
	if t.Before(from) {
		return time.Time{}, fmt.Errorf("%s is before the begin of the plan, %s", text, from.Format(time.RFC3339))
	}
	return t, nil
}
