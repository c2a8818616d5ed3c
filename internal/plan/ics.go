package plan

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

const icsLayout = "20060102T150405Z"

// WriteCalendar writes the plan as an iCalendar (RFC 5545): one event per Shoot and maintenance that changes a version,
// and one per dead end, on the day on which it begins.
func WriteCalendar(out io.Writer, p *Plan) error {
	w := &calendar{w: bufio.NewWriter(out), stamp: p.At.UTC().Format(icsLayout)}
	w.line("BEGIN:VCALENDAR")
	w.line("VERSION:2.0")
	w.line("PRODID:-//hortus.dev//plan//EN")
	w.line("CALSCALE:GREGORIAN")
	for i := range p.Shoots {
		w.shoot(&p.Shoots[i])
	}
	w.line("END:VCALENDAR")
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write calendar: %w", err)
	}
	return nil
}

type calendar struct {
	w     *bufio.Writer
	stamp string
}

func (w *calendar) shoot(s *ShootPlan) {
	name := s.Namespace + "/" + s.Name
	for i := 0; i < len(s.Changes); {
		window := s.Changes[i].Window
		var titles, texts []string
		for ; i < len(s.Changes) && s.Changes[i].Window == window; i++ {
			c := &s.Changes[i]
			titles = append(titles, fmt.Sprintf("%s %s to %s", what(c.Subject, c.Pool, c.Image), c.From, c.To))
			texts = append(texts, fmt.Sprintf("%s: %s to %s (%s). %s", what(c.Subject, c.Pool, c.Image), c.From, c.To,
				c.Describe(), c.Reason))
			texts = append(texts, c.Notes...)
		}
		w.event(name, "maintenance", window.Begin,
			"DTSTART:"+window.Begin.UTC().Format(icsLayout),
			"DTEND:"+window.End.UTC().Format(icsLayout),
			"SUMMARY:"+escape(name+": "+strings.Join(titles, ", ")),
			"DESCRIPTION:"+escape(strings.Join(texts, "\n")))
	}
	for i := range s.DeadEnds {
		d := &s.DeadEnds[i]
		at := d.Since
		if d.Deadline != nil {
			at = *d.Deadline
		}
		w.event(name, fmt.Sprintf("dead-end %d %s", i, d.Version), at,
			"DTSTART;VALUE=DATE:"+at.UTC().Format("20060102"),
			"DTEND;VALUE=DATE:"+at.UTC().Add(24*time.Hour).Format("20060102"),
			"SUMMARY:"+escape(fmt.Sprintf("%s: %s %s is stuck", name, what(d.Subject, d.Pool, d.Image), d.Version)),
			"DESCRIPTION:"+escape(d.Reason+"\nFix: "+d.Fix))
	}
}

// event writes one event. Its identity depends on Shoot, kind and time only, so that a newer plan updates it.
func (w *calendar) event(shoot, kind string, at time.Time, properties ...string) {
	id := sha256.Sum256([]byte(shoot + "\x00" + kind + "\x00" + at.UTC().Format(icsLayout)))
	w.line("BEGIN:VEVENT")
	w.line(fmt.Sprintf("UID:%x@plan.hortus.dev", id[:12]))
	w.line("DTSTAMP:" + w.stamp)
	for _, p := range properties {
		w.line(p)
	}
	w.line("TRANSP:TRANSPARENT")
	w.line("END:VEVENT")
}

// maxLine is the longest line in bytes, without its end.
const maxLine = 75

// line writes a content line, folded between characters.
func (w *calendar) line(text string) {
	limit := maxLine
	for len(text) > limit {
		at := limit
		for !utf8.RuneStart(text[at]) {
			at--
		}
		w.w.WriteString(text[:at])
		w.w.WriteString("\r\n ")
		text, limit = text[at:], maxLine-1 // The blank of a continuation counts.
	}
	w.w.WriteString(text)
	w.w.WriteString("\r\n")
}

var escaper = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`)

func escape(text string) string { return escaper.Replace(text) }
