package care

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// A configuration that is changed back at once is repaired after 1, 2, 4, ... minutes, at the latest after an hour. The
// intervals begin anew after two hours without a repair.
func TestRepairsOfWhatIsChangedBack(t *testing.T) {
	const period = time.Minute
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	always := func(int) bool { return true }
	for name, tc := range map[string]struct {
		problematic func(minute int) bool
		want        []int // Minutes.
	}{
		"never again":       {func(minute int) bool { return minute == 0 }, []int{0}},
		"after each repair": {always, []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 243}},
		"hours after a repair": {
			func(minute int) bool { return minute == 0 || minute == 200 || minute == 201 }, []int{0, 200, 201},
		},
		"by a slow owner": {func(minute int) bool { return minute%40 == 0 }, []int{0, 40, 80, 120, 160, 200, 240}},
		"an hour after a repair": {
			func(minute int) bool { return minute == 0 || minute >= 60 && minute < 64 }, []int{0, 60, 62},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, target := &repairs{}, repairTarget{shoot: "a", kind: "k", name: "n"}
			var got []int
			for minute := range 300 {
				now := begin.Add(time.Duration(minute) * period)
				if tc.problematic(minute) && r.due(target, now, period) {
					r.made(target, now, period)
					got = append(got, minute)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("repairs in these minutes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRepairsAreRememberedOneByOneAndNotForEver(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := &repairs{}
	same := repairTarget{shoot: "a", kind: "k", name: "n"}
	r.made(same, now, time.Minute)
	for _, other := range []repairTarget{{"b", "k", "n"}, {"a", "l", "n"}, {"a", "k", "m"}} {
		if !r.due(other, now, time.Minute) {
			t.Errorf("the repair of %v has to wait because of another one", other)
		}
	}
	if r.due(same, now, time.Minute) {
		t.Error("a second repair follows at once")
	}
	fill := func(shoot types.UID) {
		for i := range 2 * maxRemembered {
			r.made(repairTarget{shoot: shoot, name: fmt.Sprint(i)}, now, time.Minute)
		}
		if len(r.last) != maxRemembered {
			t.Fatalf("%d repairs are remembered, want %d", len(r.last), maxRemembered)
		}
	}
	fill("c")
	if r.due(same, now, time.Minute) {
		t.Error("a repair is forgotten because of many others")
	}
	now = now.Add(repairForgotten)
	fill("d")
	for target := range r.last {
		if target.shoot != "d" {
			t.Fatalf("%v is remembered although it is old and there are many new ones", target)
		}
	}
}
