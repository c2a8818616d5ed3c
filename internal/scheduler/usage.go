package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Usage counts the Shoots of every seed, kept up to date by watch events so that a decision never lists Shoots.
// The zero value is empty and ready. It is safe for concurrent use.
type Usage struct {
	mu     sync.Mutex
	counts map[string]int
	shoots map[types.UID]seedsOf // What each Shoot was last counted as.
}

// seedsOf are the seeds on which a Shoot takes a place: the wanted one and, while it is being moved, the present one.
type seedsOf struct{ wanted, present string }

func placesOf(s *corev1beta1.Shoot) seedsOf {
	places := seedsOf{wanted: deref(s.Spec.SeedName), present: deref(s.Status.SeedName)}
	if places.present == places.wanted {
		places.present = ""
	}
	return places
}

// Set counts the Shoot as it is now, instead of what it was counted as before.
func (u *Usage) Set(s *corev1beta1.Shoot) { u.replace(s.UID, placesOf(s)) }

// Assume counts the Shoot on a seed before the watch has brought the assignment, so that decisions in between see it.
func (u *Usage) Assume(s *corev1beta1.Shoot, seed string) {
	places := placesOf(s)
	places.wanted = seed
	u.replace(s.UID, places)
}

// Remove forgets a Shoot that is gone.
func (u *Usage) Remove(s *corev1beta1.Shoot) { u.replace(s.UID, seedsOf{}) }

// Of returns how many Shoots a seed has.
func (u *Usage) Of(seed string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[seed]
}

func (u *Usage) replace(uid types.UID, now seedsOf) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts, u.shoots = map[string]int{}, map[types.UID]seedsOf{}
	}
	before := u.shoots[uid]
	u.add(before, -1)
	u.add(now, 1)
	if now == (seedsOf{}) {
		delete(u.shoots, uid)
		return
	}
	u.shoots[uid] = now
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
