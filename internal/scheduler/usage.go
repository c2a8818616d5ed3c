package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Usage counts the Shoots of every Seed. Watch events keep it up to date, so that a decision never lists Shoots. The
// zero value is empty and ready to use. It is safe for concurrent use.
type Usage struct {
	mu     sync.Mutex
	counts map[string]int
	// shoots is what each Shoot was last counted as.
	shoots map[types.UID]seedsOf
	// assumed are assignments that no watch has reported yet.
	assumed map[types.UID]attempt
}

// attempt is the assignment of a version of a Shoot.
type attempt struct {
	version, seed string
	kept          bool // It was written, or may have been.
}

// seedsOf are the seeds on which a Shoot takes a place: the wanted one and, while it is being moved, the present one.
type seedsOf struct{ wanted, present string }

func placesOf(s *corev1beta1.Shoot) seedsOf {
	places := seedsOf{wanted: ptr.Deref(s.Spec.SeedName, ""), present: ptr.Deref(s.Status.SeedName, "")}
	if places.present == places.wanted {
		places.present = ""
	}
	return places
}

func (p seedsOf) on(seed string) seedsOf {
	p.wanted = seed
	return p
}

// has says whether a seed is among them, or is none.
func (p seedsOf) has(seed string) bool { return seed == "" || p.wanted == seed || p.present == seed }

// Set counts the Shoot in its present state, in place of the previous one, and reports whether it has left a Seed. A
// state that an assumption is based on, or an older one, changes nothing: the watch lags behind the assumption.
func (u *Usage) Set(s *corev1beta1.Shoot) (left bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a, assumed := u.assumed[s.UID]; assumed {
		// Versions that cannot be compared are not from a server, which has a watch.
		if order, err := resourceversion.CompareResourceVersion(s.ResourceVersion, a.version); err == nil && order <= 0 {
			return false
		}
	}
	return u.replace(s.UID, placesOf(s))
}

// Assume counts the Shoot on a Seed before the watch reports the assignment, so that decisions in between consider it.
func (u *Usage) Assume(s *corev1beta1.Shoot, seed string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replace(s.UID, placesOf(s).on(seed))
	if u.assumed == nil {
		u.assumed = map[types.UID]attempt{}
	}
	u.assumed[s.UID] = attempt{version: s.ResourceVersion, seed: seed}
}

// Revert undoes Assume, unless the watch has reported the Shoot since.
func (u *Usage) Revert(s *corev1beta1.Shoot, seed string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isAssumed(s, seed) {
		u.replace(s.UID, placesOf(s))
	}
}

// Keep records that an assumed assignment was written, or may have been. It counts until the watch reports the Shoot,
// even if the Shoot is handled again before that.
func (u *Usage) Keep(s *corev1beta1.Shoot, seed string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.isAssumed(s, seed) {
		u.assumed[s.UID] = attempt{s.ResourceVersion, seed, true}
	}
}

// Kept returns the seed of an assignment of this version of the Shoot that Keep has recorded.
func (u *Usage) Kept(s *corev1beta1.Shoot) (seed string, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.assumed[s.UID]
	return a.seed, a.kept && a.version == s.ResourceVersion
}

// isAssumed says whether the watch has not reported the Shoot since its assignment was assumed. The caller holds the
// lock.
func (u *Usage) isAssumed(s *corev1beta1.Shoot, seed string) bool {
	a, assumed := u.assumed[s.UID]
	return assumed && a.version == s.ResourceVersion && a.seed == seed
}

// Remove stops counting a deleted Shoot, and reports whether it had a Seed.
func (u *Usage) Remove(s *corev1beta1.Shoot) (left bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.replace(s.UID, seedsOf{})
}

// Of returns the number of Shoots of a Seed.
func (u *Usage) Of(seed string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[seed]
}

// replace counts a Shoot differently, in place of an assumption, too, and reports whether that frees a place. The
// caller holds the lock.
func (u *Usage) replace(uid types.UID, now seedsOf) (left bool) {
	if u.counts == nil {
		u.counts, u.shoots = map[string]int{}, map[types.UID]seedsOf{}
	}
	delete(u.assumed, uid)
	before := u.shoots[uid]
	u.add(before, -1)
	u.add(now, 1)
	if now == (seedsOf{}) {
		delete(u.shoots, uid)
	} else {
		u.shoots[uid] = now
	}
	return !now.has(before.wanted) || !now.has(before.present)
}

func (u *Usage) add(places seedsOf, n int) {
	for _, seed := range []string{places.wanted, places.present} {
		if seed == "" {
			continue
		}
		u.counts[seed] += n
		if u.counts[seed] == 0 {
			delete(u.counts, seed)
		}
	}
}
