package plan

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/hortus/internal/maintenance"
)

// Summary is a plan in numbers.
type Summary struct {
	Shoots    int            `json:"shoots"`
	Changed   int            `json:"changed"` // Shoots with at least one change.
	Stuck     int            `json:"stuck"`   // Shoots in a dead end at the end of the plan.
	Months    []Month        `json:"months,omitempty"`
	Busiest   []Busy         `json:"busiest,omitempty"` // Days on which most Shoots jump a minor.
	Versions  map[string]int `json:"versions"`          // Shoots by Kubernetes minor version, at the start.
	End       map[string]int `json:"versionsAtEnd"`     // The same at the end.
	DeadEnds  []Blocked      `json:"deadEnds,omitempty"`
	Rotations int            `json:"rotations"`
}

// Month counts the updates of one month.
type Month struct {
	Month      string `json:"month"`
	Minor      int    `json:"minor"`   // Control planes that jump a minor version.
	Patch      int    `json:"patch"`   // Control planes that get another patch.
	Images     int    `json:"images"`  // Pools that get another machine image version.
	PoolMinor  int    `json:"pools"`   // Pools with a Kubernetes version of their own that get another.
	RollShoots int    `json:"rolling"` // Shoots with at least one pool that is rolled.
}

// Busy is a day and the number of Shoots that jump a minor version on it.
type Busy struct {
	Day    string `json:"day"`
	Shoots int    `json:"shoots"`
}

// Blocked is a dead end and the number of Shoots in it.
type Blocked struct {
	CloudProfile string `json:"cloudProfile"`
	What         string `json:"what"`
	Version      string `json:"version"`
	Shoots       int    `json:"shoots"`
	Deadline     string `json:"deadline,omitempty"`
	Reason       string `json:"reason"`
	Fix          string `json:"fix"`
}

const maxBusiest = 5

// Summarize summarizes a plan.
func Summarize(p *Plan) Summary {
	s := Summary{Shoots: len(p.Shoots), Versions: map[string]int{}, End: map[string]int{}}
	months, days := map[string]*Month{}, map[string]int{}
	blocked := map[Blocked]int{}
	for i := range p.Shoots {
		shoot := &p.Shoots[i]
		s.Versions[minorOf(shoot.Kubernetes)]++
		s.End[minorOf(shoot.EndKubernetes)]++
		if len(shoot.Changes) > 0 {
			s.Changed++
		}
		if shoot.Stuck() {
			s.Stuck++
		}
		for _, r := range shoot.Rotations {
			s.Rotations += len(r.Times)
		}
		rolling := map[string]bool{}
		for j := range shoot.Changes {
			c := &shoot.Changes[j]
			key := c.Window.Begin.UTC().Format("2006-01")
			if months[key] == nil {
				months[key] = &Month{Month: key}
			}
			months[key].count(c)
			if c.Minor() {
				days[c.Window.Begin.UTC().Format(time.DateOnly)]++
			}
			for _, effect := range c.Effects {
				if effect.Effect == EffectRoll && !rolling[key] {
					rolling[key] = true
					months[key].RollShoots++
				}
			}
		}
		once := map[Blocked]bool{}
		for j := range shoot.DeadEnds {
			if d := &shoot.DeadEnds[j]; !d.Temporary {
				once[blockedBy(shoot, d)] = true
			}
		}
		for key := range once {
			blocked[key]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(months)) {
		s.Months = append(s.Months, *months[key])
	}
	for _, day := range slices.Sorted(maps.Keys(days)) {
		s.Busiest = append(s.Busiest, Busy{day, days[day]})
	}
	slices.SortStableFunc(s.Busiest, func(a, b Busy) int { return b.Shoots - a.Shoots })
	s.Busiest = s.Busiest[:min(len(s.Busiest), maxBusiest)]
	for key, shoots := range blocked {
		key.Shoots = shoots
		s.DeadEnds = append(s.DeadEnds, key)
	}
	slices.SortFunc(s.DeadEnds, func(a, b Blocked) int {
		if a.Shoots != b.Shoots {
			return b.Shoots - a.Shoots
		}
		return strings.Compare(a.CloudProfile+a.What+a.Version+a.Reason, b.CloudProfile+b.What+b.Version+b.Reason)
	})
	return s
}

func (m *Month) count(c *Change) {
	switch {
	case c.Minor():
		m.Minor++
	case c.Subject == maintenance.ControlPlane:
		m.Patch++
	case c.Subject == maintenance.PoolImage:
		m.Images++
	default:
		m.PoolMinor++
	}
}

// blockedBy drops what differs from pool to pool, so that the same dead end of many Shoots is counted together.
func blockedBy(s *ShootPlan, d *DeadEnd) Blocked {
	b := Blocked{CloudProfile: s.CloudProfile, What: "kubernetes", Version: d.Version, Reason: d.short(), Fix: d.Fix}
	switch {
	case d.Image != "":
		b.What = "image " + d.Image
		b.Fix = strings.ReplaceAll(b.Fix, fmt.Sprintf("worker pool %q", d.Pool), "the pools")
	case d.Version == "":
		b.What = "maintenance"
	}
	if d.Deadline != nil {
		b.Deadline = d.Deadline.UTC().Format(time.RFC3339)
	}
	return b
}

func minorOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// WriteSummary writes the summary as text.
func WriteSummary(out io.Writer, s Summary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d Shoots, %d change, %d stuck at the end.\n", s.Shoots, s.Changed, s.Stuck)
	if len(s.Months) > 0 {
		fmt.Fprintln(w, "\nMONTH\tMINOR JUMPS\tPATCHES\tPOOL VERSIONS\tIMAGES\tSHOOTS ROLLING")
		for _, m := range s.Months {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", m.Month, m.Minor, m.Patch, m.PoolMinor, m.Images, m.RollShoots)
		}
	}
	minors := map[string]bool{}
	for v := range s.Versions {
		minors[v] = true
	}
	for v := range s.End {
		minors[v] = true
	}
	fmt.Fprintln(w, "\nKUBERNETES\tNOW\tAT END")
	for _, minor := range slices.SortedFunc(maps.Keys(minors), compareMinor) {
		fmt.Fprintf(w, "%s\t%d\t%d\n", minor, s.Versions[minor], s.End[minor])
	}
	for i, b := range s.Busiest {
		if i == 0 {
			fmt.Fprintln(w, "\nMINOR JUMPS ON\tSHOOTS")
		}
		fmt.Fprintf(w, "%s\t%d\n", b.Day, b.Shoots)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	for i, d := range s.DeadEnds {
		if i == 0 {
			fmt.Fprintln(out, "\nDead ends:")
		}
		fmt.Fprintf(out, "  %s of %s: %s %s; %s\n    fix: %s", count(d.Shoots, "Shoot", "Shoots"), d.CloudProfile, d.What,
			d.Version, d.Reason, d.Fix)
		if d.Deadline != "" {
			fmt.Fprintf(out, ", before %s", d.Deadline)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func compareMinor(a, b string) int {
	var aMajor, aMinor, bMajor, bMinor int
	fmt.Sscanf(a, "%d.%d", &aMajor, &aMinor)
	fmt.Sscanf(b, "%d.%d", &bMajor, &bMinor)
	if aMajor != bMajor {
		return aMajor - bMajor
	}
	return aMinor - bMinor
}
