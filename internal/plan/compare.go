package plan

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

// Comparison is the effect of changed CloudProfiles on a plan.
type Comparison struct {
	At       time.Time   `json:"at"`
	Until    time.Time   `json:"until"`
	Shoots   int         `json:"shoots"`             // All Shoots that were compared.
	Changed  int         `json:"changed"`            // Shoots whose plan differs.
	Affected []ShootDiff `json:"affected,omitempty"` // One entry per Shoot whose plan differs; left out of a summary.
	Jumps    []Busy      `json:"jumps,omitempty"`    // Days with minor jumps that were not planned, by day.
	Spared   int         `json:"spared"`             // Minor jumps that were planned and are not any more.
	Stuck    int         `json:"stuck"`              // Shoots that end in a dead end only after the change.
	Freed    int         `json:"freed"`              // Shoots that ended in a dead end only before the change.
}

// ShootDiff is the difference for one Shoot.
type ShootDiff struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Removed   []Change  `json:"removed,omitempty"`
	Added     []Change  `json:"added,omitempty"`
	DeadEnds  []DeadEnd `json:"deadEnds,omitempty"` // After the change, if the Shoot was not stuck before.
	Stuck     bool      `json:"stuck,omitempty"`
	Freed     bool      `json:"freed,omitempty"`
}

// changeKey reports whether two changes are the same one.
type changeKey struct {
	subject        maintenance.Subject
	pool, from, to string
	begin          int64
}

func (c *Change) key() changeKey {
	return changeKey{c.Subject, c.Pool, c.From, c.To, c.Window.Begin.Unix()}
}

// Compare compares plans of the same Shoots, in the same order, before and after a change of CloudProfiles.
func Compare(before, after *Plan) *Comparison {
	c := &Comparison{At: after.At, Until: after.Until, Shoots: len(after.Shoots)}
	jumps := map[string]int{}
	for i := range after.Shoots {
		d := diff(&before.Shoots[i], &after.Shoots[i])
		if len(d.Removed)+len(d.Added) == 0 && !d.Stuck && !d.Freed {
			continue
		}
		c.Changed++
		c.Affected = append(c.Affected, d)
		for j := range d.Added {
			if d.Added[j].Minor() {
				jumps[d.Added[j].Window.Begin.UTC().Format(time.DateOnly)]++
			}
		}
		for j := range d.Removed {
			if d.Removed[j].Minor() {
				c.Spared++
			}
		}
		if d.Stuck {
			c.Stuck++
		}
		if d.Freed {
			c.Freed++
		}
	}
	for _, day := range slices.Sorted(maps.Keys(jumps)) {
		c.Jumps = append(c.Jumps, Busy{day, jumps[day]})
	}
	return c
}

func diff(before, after *ShootPlan) ShootDiff {
	d := ShootDiff{Namespace: after.Namespace, Name: after.Name}
	d.Removed = without(before.Changes, after.Changes)
	d.Added = without(after.Changes, before.Changes)
	d.Stuck = after.Stuck() && !before.Stuck()
	d.Freed = before.Stuck() && !after.Stuck()
	if d.Stuck {
		d.DeadEnds = after.DeadEnds
	}
	return d
}

func without(changes, others []Change) []Change {
	known := make(map[changeKey]bool, len(others))
	for i := range others {
		known[others[i].key()] = true
	}
	var rest []Change
	for i := range changes {
		if !known[changes[i].key()] {
			rest = append(rest, changes[i])
		}
	}
	return rest
}

// WriteComparison writes the comparison as text: first the summary, then the Shoots.
func WriteComparison(out io.Writer, c *Comparison) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d of %d Shoots are affected.\n", c.Changed, c.Shoots)
	for _, j := range c.Jumps {
		fmt.Fprintf(w, "%s a minor on %s.\n", count(j.Shoots, "Shoot jumps", "Shoots jump"), j.Day)
	}
	if c.Spared > 0 {
		fmt.Fprintf(w, "%s no longer happen as planned.\n", count(c.Spared, "minor jump", "minor jumps"))
	}
	if c.Stuck > 0 {
		fmt.Fprintf(w, "%s stuck.\n", count(c.Stuck, "Shoot is", "Shoots are"))
	}
	if c.Freed > 0 {
		fmt.Fprintf(w, "%s no longer stuck.\n", count(c.Freed, "Shoot is", "Shoots are"))
	}
	for i := range c.Affected {
		if i == 0 {
			fmt.Fprintln(w, "\n\tSHOOT\tWINDOW (UTC)\tWHAT\tFROM\tTO\tEFFECT")
		}
		d := &c.Affected[i]
		name := d.Namespace + "/" + d.Name
		for j := range d.Removed {
			r := &d.Removed[j]
			fmt.Fprintf(w, "-\t%s\t%s\t%s\t%s\t%s\t%s\n", name, windowText(r.Window), what(r.Subject, r.Pool, r.Image), r.From,
				r.To, r.Describe())
		}
		for j := range d.Added {
			a := &d.Added[j]
			fmt.Fprintf(w, "+\t%s\t%s\t%s\t%s\t%s\t%s\n", name, windowText(a.Window), what(a.Subject, a.Pool, a.Image), a.From,
				a.To, a.Describe())
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	for i := range c.Affected {
		d := &c.Affected[i]
		for j := range d.DeadEnds {
			if _, err := io.WriteString(out, d.DeadEnds[j].text(d.Namespace+"/"+d.Name)); err != nil {
				return fmt.Errorf("write comparison: %w", err)
			}
		}
	}
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
