package lint

import (
	"time"
)

// restless is the maximum time between two maintenances of a Shoot: windows are daily, and one that lasts all day may
// run at its beginning on one day and at its end on the next.
const restless = 48 * time.Hour

// graph holds the versions that Shoots can be on. Time is divided into epochs, in which no class changes.
type graph struct {
	epochs   []time.Time // A time in each epoch, ascending; the first is now.
	ends     []time.Time // The last time of each epoch but the last.
	versions []string
	// offered reports whether a user may choose the version in an epoch; present reports whether Shoots may be on it now.
	offered func(version string, t time.Time) bool
	present func(version string) bool
	// decide decides once. If target is empty and failed is false, the Shoot stays on its version.
	decide func(version string, t time.Time, auto bool) (target string, failed bool)
}

// stuckness is the time in which Shoots on one version are stuck.
type stuckness struct {
	from    time.Time // Beginning of the first epoch in which they are.
	until   time.Time // Beginning of the first epoch after it in which they are not; zero if there is none.
	forever bool      // They are stuck in the last epoch.
}

// epochsOf divides the time from now on at the changes.
func epochsOf(now time.Time, changes []time.Time) (epochs, ends []time.Time) {
	epochs = []time.Time{now}
	for _, change := range changes {
		if !change.Before(now) {
			ends = append(ends, change)
			epochs = append(epochs, change.Add(1))
		}
	}
	return epochs, ends
}

// explore follows all update paths of all Shoots and returns the versions on which any Shoot is ever stuck. It assumes
// that owners enable and disable automatic updates at any time.
func (g *graph) explore() map[string]stuckness {
	stuck := map[string]stuckness{}
	arriving := map[string]bool{} // Versions with Shoots at the beginning of the epoch.
	for _, v := range g.versions {
		arriving[v] = g.present(v)
	}
	for e, t := range g.epochs {
		last := e == len(g.epochs)-1
		short := !last && g.ends[e].Sub(t) < restless
		reached := map[string]bool{}
		leaving := map[string]bool{} // Versions with Shoots at the end of the epoch.
		var queue []string
		reach := func(v string) {
			if !reached[v] {
				reached[v] = true
				queue = append(queue, v)
			}
		}
		for _, v := range g.versions {
			if g.offered(v, t) {
				reach(v)
				leaving[v] = true // Chosen just before the end.
			}
			if arriving[v] {
				reach(v)
				leaving[v] = leaving[v] || short
			}
		}
		for len(queue) > 0 {
			v := queue[0]
			queue = queue[1:]
			for _, auto := range []bool{false, true} {
				target, failed := g.decide(v, t, auto)
				switch {
				case failed:
					stuck[v] = stuck[v].at(t, last)
					leaving[v] = true
				case target == "":
					leaving[v] = true
				default:
					reach(target)
					leaving[target] = true // Moved by the last maintenance of the epoch.
				}
			}
		}
		for v, s := range stuck {
			if s.until.IsZero() && !s.stuckAt(g, v, t, reached) {
				s.until = t
				stuck[v] = s
			}
		}
		arriving = leaving
	}
	return stuck
}

func (s stuckness) at(t time.Time, last bool) stuckness {
	if s.from.IsZero() {
		s.from = t
	}
	s.until = time.Time{}
	s.forever = s.forever || last
	return s
}

func (s stuckness) stuckAt(g *graph, v string, t time.Time, reached map[string]bool) bool {
	if !reached[v] {
		return false
	}
	_, failed := g.decide(v, t, false)
	return failed
}
