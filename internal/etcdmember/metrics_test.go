package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"hortus.dev/hortus/internal/etcdmember/fence"
)

func TestEndsAreCountedByCause(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx     context.Context
		err     error
		verdict fence.Verdict
		want    string
	}{
		"another configuration":             {t.Context(), nil, fence.Run, causeConfiguration},
		"etcd has crashed":                  {t.Context(), errors.New("exit status 1"), fence.Run, causeFailure},
		"etcd has crashed before its fence": {t.Context(), errors.New("exit status 1"), fence.Fenced, causeFailure},
		"nobody confirms":                   {t.Context(), errNotPermitted, fence.Fenced, causeFenced},
		"nobody has confirmed yet":          {t.Context(), errNotPermitted, fence.Wait, causeFenced},
		"confirmed again meanwhile":         {t.Context(), errNotPermitted, fence.Run, causeFenced},
		"another owner":                     {t.Context(), errNotPermitted, fence.Superseded, causeSuperseded},
		"the end of the process":            {stopped, nil, fence.Run, ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			NewMetrics(registry).ended(tc.ctx, tc.err, tc.verdict)
			counted(t, registry, 0, tc.want)
		})
	}
}

// counted checks the number of starts, and that each of the ends was counted once.
func counted(t *testing.T, registry *prometheus.Registry, starts int, ends ...string) {
	t.Helper()
	want := fmt.Sprintf("# HELP hortus_etcd_member_starts_total Starts of etcd; all but the first one are restarts.\n"+
		"# TYPE hortus_etcd_member_starts_total counter\nhortus_etcd_member_starts_total %d\n", starts)
	for _, cause := range ends {
		if cause != "" {
			want += "# HELP hortus_etcd_member_ends_total Ends of etcd by cause: configuration, failure, fenced or superseded.\n" +
				"# TYPE hortus_etcd_member_ends_total counter\nhortus_etcd_member_ends_total{cause=\"" + cause + "\"} 1\n"
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
