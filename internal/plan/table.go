package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

const minuteLayout = "2006-01-02 15:04"

// row is one line of the table, ordered by time.
type row struct {
	at    time.Time
	cells []string
	notes []string
}

// WriteTable writes the plan as text: every change and dead end, sorted by time. Wide adds rule and reason.
func WriteTable(out io.Writer, p *Plan, wide bool) error {
	header := []string{"WINDOW (UTC)", "SHOOT", "WHAT", "FROM", "TO", "WHY", "EFFECT"}
	if wide {
		header = append(header, "AT", "REASON")
	}
	var rows []row
	for i := range p.Shoots {
		rows = append(rows, shootRows(&p.Shoots[i], wide)...)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.at.Compare(b.at) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(rows) > 0 {
		fmt.Fprintln(w, strings.Join(header, "\t"))
	}
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r.cells, "\t"))
		for _, note := range r.notes {
			// A line without tabs would end the columns of the table; an empty cell per column keeps them.
			fmt.Fprintln(w, strings.Repeat("\t", len(header)-1)+note)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	if err := writeDeadEnds(out, p); err != nil {
		return err
	}
	return writeFootnotes(out, p, len(rows))
}

func shootRows(s *ShootPlan, wide bool) []row {
	var rows []row
	name := s.Namespace + "/" + s.Name
	for i := range s.Changes {
		c := &s.Changes[i]
		cells := []string{windowText(c.Window), name, what(c.Subject, c.Pool, c.Image), c.From, c.To, c.Rule, c.Describe()}
		if wide {
			cells = append(cells, c.At.UTC().Format(time.RFC3339), c.Reason)
		}
		rows = append(rows, row{c.At, cells, c.Notes})
	}
	for i := range s.Operations {
		o := &s.Operations[i]
		cells := []string{windowText(o.Window), name, "operation", "", o.Name, "requested", ""}
		if wide {
			cells = append(cells, o.At.UTC().Format(time.RFC3339), "deferred to the maintenance by its owner")
		}
		rows = append(rows, row{o.At, cells, nil})
	}
	for i := range s.Rotations {
		r := &s.Rotations[i]
		cells := []string{
			r.Times[0].UTC().Format(minuteLayout), name, "credentials", "", r.Operation, "rotation", times(r.Times),
		}
		if wide {
			cells = append(cells, r.Times[0].UTC().Format(time.RFC3339), "automatic rotation is configured")
		}
		rows = append(rows, row{r.Times[0], cells, nil})
	}
	return rows
}

func times(all []time.Time) string {
	if len(all) == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times until %s", len(all), all[len(all)-1].UTC().Format(time.DateOnly))
}

func windowText(w Interval) string {
	return w.Begin.UTC().Format(minuteLayout) + "-" + w.End.UTC().Format("15:04")
}

func what(subject maintenance.Subject, pool, image string) string {
	switch subject {
	case maintenance.ControlPlane:
		return "kubernetes"
	case maintenance.PoolKubernetes:
		return "kubernetes of pool " + pool
	case maintenance.PoolImage:
		if pool == "" {
			return "machine images"
		}
		return "image " + image + " of pool " + pool
	}
	return "maintenance"
}

func writeDeadEnds(out io.Writer, p *Plan) error {
	var b strings.Builder
	for i := range p.Shoots {
		s := &p.Shoots[i]
		for j := range s.DeadEnds {
			b.WriteString(s.DeadEnds[j].text(s.Namespace + "/" + s.Name))
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "\nDead ends:\n%s", b.String()); err != nil {
		return fmt.Errorf("write dead ends: %w", err)
	}
	return nil
}

func (d *DeadEnd) text(shoot string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s: ", shoot)
	if d.Version != "" {
		fmt.Fprintf(&b, "%s %s", what(d.Subject, d.Pool, d.Image), d.Version)
		if d.Deadline != nil {
			fmt.Fprintf(&b, " expires %s", d.Deadline.UTC().Format(time.DateOnly))
		}
		b.WriteString("; ")
	}
	fmt.Fprintf(&b, "%s: stuck from %s", d.short(), d.Since.UTC().Format(time.DateOnly))
	if d.Until != nil {
		fmt.Fprintf(&b, " until %s", d.Until.UTC().Format(time.DateOnly))
	}
	fmt.Fprintf(&b, "\n    fix: %s", d.Fix)
	if d.Deadline != nil {
		fmt.Fprintf(&b, ", before %s", d.Deadline.UTC().Format(time.RFC3339))
	}
	b.WriteString("\n")
	return b.String()
}

// short is the reason for a table that already has the version.
func (d *DeadEnd) short() string {
	if d.Because != "" {
		return d.Because
	}
	return d.Reason
}

func writeFootnotes(out io.Writer, p *Plan, rows int) error {
	quiet := 0
	for i := range p.Shoots {
		if s := &p.Shoots[i]; len(s.Changes) == 0 && len(s.DeadEnds) == 0 {
			quiet++
		}
	}
	prefix := "\n"
	if rows == 0 {
		prefix = ""
	}
	_, err := fmt.Fprintf(out, "%s%d of %d Shoots keep their versions from %s until %s.\n", prefix, quiet, len(p.Shoots),
		p.At.UTC().Format(time.DateOnly), p.Until.UTC().Format(time.DateOnly))
	if err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
