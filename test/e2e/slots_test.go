//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// part of the landscape that a story uses.
type part int

const (
	everything part = iota // No other story runs at the same time.
	firstSeed              // Other stories use the landscape, too. Shoots have to be bound to local-1.
	bothSeeds              // No other story uses local-2, so that it may fail or be removed.
)

// sideBySide is the number of stories that run concurrently. They wait most of the time, so that three suit two cores.
const sideBySide = 3

// crowded is the load average per core from which no story begins alongside others: the processes of the present ones
// wait for a core so long that leaders lose their Leases and probes fail, and restarts take what time is left.
const crowded = 15

// longStories take longer than 300 s alongside two others. None of them should be the last one, alone.
var longStories = []string{
	"TestConditionsHaveThresholds", "TestEncryptionAtRest", "TestErrorsOfTheCloud", "TestExampleExtension",
	"TestGardenIsInstalledByHelm", "TestHibernationEndsUpdatesInPlace", "TestNodesOfTwoPools", "TestPoolsRollOnRequest",
	"TestRandomEditsRollAsPredicted", "TestShootBecomesASeed", "TestShootsAreDeletedInAnyState", "TestSleepAndDeletion",
	"TestStatusIsAccurate", "TestTenantsReachNothingElse", "TestUpdatesInPlace", "TestWaysIntoShoot",
	"TestWebhooksOfAnExtension",
}

// rank decides which story gets a free slot.
type rank int

const (
	onSecondSeed rank = iota // They run one after the other, which takes long.
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

// slots limit the stories that share the landscape.
var slots = newQueue(sideBySide)

// queue hands out slots.
type queue struct {
	changed    *sync.Cond
	free       int
	waiting    [ranks]int
	secondSeed bool // A story uses it.
}

func newQueue(size int) *queue {
	return &queue{changed: sync.NewCond(&sync.Mutex{}), free: size}
}

// take a slot until the test ends, and the second seed, too, for a story of this rank.
func (q *queue) take(t *testing.T, mine rank) {
	t.Helper()
	q.changed.L.Lock()
	q.waiting[mine]++
	q.changed.L.Unlock()
	t.Parallel() // All stories wait before the first one continues.

	q.changed.L.Lock()
	defer q.changed.L.Unlock()
	for !q.mayTake(mine) || q.free < sideBySide && isCrowded(t) {
		again := time.AfterFunc(10*time.Second, q.changed.Broadcast) // Nobody reports a lower load.
		q.changed.Wait()
		again.Stop()
	}
	q.waiting[mine]--
	q.free--
	if mine == onSecondSeed {
		q.secondSeed = true
	}
	q.changed.Broadcast() // Stories of lower rank no longer wait for it.
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

// isCrowded reports whether more processes than the cores can serve have wanted to run during the last minute.
func isCrowded(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		t.Fatalf("read %q as a load average: %v", text, err)
	}
	return load > crowded*float64(runtime.NumCPU())
}
