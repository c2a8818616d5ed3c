package steps

import (
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"hortus.dev/hortus/internal/maintenance"
)

func TestFullSchedule(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, end string
		// distinct is the minimum number of different times of 200 control planes.
		distinct int
	}{
		"an hour":                            {begin: "220000+0000", end: "230000+0000", distinct: 40},
		"over midnight":                      {begin: "233000+0000", end: "003000+0000", distinct: 40},
		"over midnight only in UTC":          {begin: "003000+0100", end: "013000+0100", distinct: 40},
		"the shortest":                       {begin: "220000+0000", end: "223000+0000", distinct: 15},
		"the shortest, over midnight":        {begin: "234530+0000", end: "001530+0000", distinct: 15},
		"the longest":                        {begin: "200000+0000", end: "020000+0000", distinct: 140},
		"a minute, which validation rejects": {begin: "220000+0000", end: "221600+0000", distinct: 2},
	} {
		t.Run(name, func(t *testing.T) {
			configured, err := maintenance.ParseWindow(tc.begin, tc.end)
			if err != nil {
				t.Fatal(err)
			}
			w, times := configured.Effective(), map[string]bool{}
			for i := range 200 {
				namespace := fmt.Sprintf("shoot--dev--%d", i)
				schedule := fullSchedule(w, namespace)
				if again := fullSchedule(w, namespace); again != schedule {
					t.Fatalf("%q, then %q for the same namespace", schedule, again)
				}
				parsed, err := cron.ParseStandard("CRON_TZ=UTC " + schedule)
				if err != nil {
					t.Fatal(err)
				}
				at := parsed.Next(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
				if !w.Contains(at) || parsed.Next(at).Sub(at) != 24*time.Hour {
					t.Errorf("%q is not daily in the window %s to %s", schedule, tc.begin, tc.end)
				}
				times[schedule] = true
			}
			if len(times) < tc.distinct {
				t.Errorf("%d different times, want at least %d", len(times), tc.distinct)
			}
		})
	}
	for _, w := range []maintenance.Window{maintenance.Always, {}, {Begin: 30 * time.Second, End: 40 * time.Second}} {
		if schedule := fullSchedule(w, "shoot--dev--a"); schedule == "" {
			t.Errorf("no schedule in %+v", w)
		} else if _, err := cron.ParseStandard(schedule); err != nil {
			t.Errorf("schedule in %+v: %v", w, err)
		}
	}
}
