//go:build landscape

package e2e

import (
	"slices"
	"sync"
	"testing"
)

// part of the landscape that a story uses.
type part int

const (
	everything part = iota // No other story runs meanwhile.
	firstSeed              // Others use it, too. Shoots have to be bound to local-1.
	bothSeeds              // No other story uses local-2, so that it may be taken away.
)

// sideBySide is how many stories run at once. They wait most of the time, so that three suit two cores.
const sideBySide = 3

// longStories take longer than 400 s beside two others. None of them should be left alone at the end.
var longStories = []string{
	"TestEncryptionAtRest", "TestNodesOfTwoPools", "TestPoolsRollWhenTheyAreAsked", "TestTenantsReachNothingElse",
	"TestUpdatesInPlace", "TestWaysIntoShoot",
}

// rank decides which story goes first when there is a slot.
type rank int

const (
	onSecondSeed rank = iota // One runs after the other, which takes long.
	long
	short
	ranks
)

func rankOf(t *testing.T, uses part) rank {
	switch {
	case uses == bothSeeds:
		return onSecondSeed
	case slices.Contains(longStories, t.Name()):
		return long
	default:
		return short
	}
}

// slots are what stories that share the landscape run in.
var slots = newQueue(sideBySide)

// queue hands out slots.
type queue struct {
	changed    *sync.Cond
	free       int
	waiting    [ranks]int
	secondSeed bool // It is in use.
}

func newQueue(size int) *queue {
	return &queue{changed: sync.NewCond(&sync.Mutex{}), free: size}
}

// take a slot until the test ends, and the second seed as well for a story of this rank.
func (q *queue) take(t *testing.T, mine rank) {
	t.Helper()
	q.changed.L.Lock()
	q.waiting[mine]++
	q.changed.L.Unlock()
	t.Parallel() // All of them wait before the first one goes on.

	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	for !q.mayTake(mine) {
		q.changed.Wait()
	}
	q.waiting[mine]--
	q.free--
	if mine == onSecondSeed {
		q.secondSeed = true
	}
	q.changed.Broadcast() // Those that go after it wait for it no longer.
	t.Cleanup(func() {
		q.changed.L.Lock()
		defer q.changed.L.Unlock()
		q.free++
		if mine == onSecondSeed {
			q.secondSeed = false
		}
		q.changed.Broadcast()
	})
}

func (q *queue) mayTake(mine rank) bool {
	for first := range mine {
		if q.waiting[first] > 0 && (first != onSecondSeed || !q.secondSeed) {
			return false
		}
	}
	return q.free > 0 && (mine != onSecondSeed || !q.secondSeed)
}
