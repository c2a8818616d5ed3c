package steps

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/flow"
)

// maxLeap is the largest share of the progress that one pass may add, in percent, while the flow is not complete.
const maxLeap = 34

// progress returns what users see of the progress of a flow, pass by pass, if each step waits in so many passes. A
// process that ends after a pass is replaced by another one.
func (p plan) progress(passes func(step string) int, ends func(pass int) bool) []int32 {
	waits := map[string]int{}
	graph := p.graph().Simulate(func(step string) (flow.Outcome, error) {
		if waits[step]++; waits[step] <= passes(step) {
			return flow.Waiting(waitObject, "x"), nil
		}
		return flow.Done(), nil
	})
	timers := &flow.Timers{}
	var shown []int32
	for pass := 0; ; pass++ {
		opts := flow.Options{Clock: testclock.NewFakePassiveClock(time.Unix(0, 0)), Timers: timers, InOrder: true}
		result := flow.Run(context.Background(), graph, p.scope, opts)
		shown = append(shown, result.Progress())
		if result.Complete() {
			return shown
		}
		if ends(pass) {
			timers = &flow.Timers{Before: result.Progress()}
		}
	}
}

// unseen are flows whose progress nobody sees: those of a seed that is not responsible for the Shoot yet, or any more.
var unseen = []string{"prepare", "prepare-extensions", "prepare-hibernated", "remove-leftover", "stop-leftover"}

// TestProgressOfFlows: in every flow, the first progress that users see is 0, whatever the steps wait for, it never
// decreases, and it is 100 only at the end. If every step takes its time, no pass adds much.
func TestProgressOfFlows(t *testing.T) {
	never := func(int) bool { return false }
	for name, p := range plans() {
		t.Run(name, func(t *testing.T) {
			check := func(what string, got []int32) {
				t.Helper()
				if len(got) > 1 && got[0] != 0 || !slices.IsSorted(got) || slices.Index(got, 100) != len(got)-1 {
					t.Errorf("%s: progress is %v, want 0, and then no less than before, and 100 at the end", what, got)
				}
			}
			even := p.progress(func(string) int { return 1 }, never)
			check("all steps wait once", even)
			for i := 1; i < len(even)-1; i++ {
				if leap := even[i] - even[i-1]; leap > maxLeap && !slices.Contains(unseen, name) {
					t.Errorf("all steps wait once: progress is %v, want no leap of more than %d", even, maxLeap)
					break
				}
			}
			t.Logf("all steps wait once: progress is %v", even)
			for seed := range uint64(50) {
				rng := rand.New(rand.NewPCG(seed, 1))
				waits := map[string]int{}
				share := rng.IntN(10)
				got := p.progress(func(step string) int {
					if _, known := waits[step]; !known {
						waits[step] = 0
						if rng.IntN(10) < share {
							waits[step] = 1 + rng.IntN(5)
						}
					}
					return waits[step]
				}, func(int) bool { return rng.IntN(20) == 0 })
				check("seed "+strconv.FormatUint(seed, 10), got)
			}
		})
	}
}
