package backup

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
)

func TestUndone(t *testing.T) {
	begin := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.MicroTime {
		return metav1.NewMicroTime(begin.Add(time.Duration(minutes) * time.Minute))
	}
	full := func(last int64, minutes int) backupv1alpha1.Backup {
		return backupv1alpha1.Backup{Kind: "full", FirstRevision: 1, LastRevision: last, Time: at(minutes)}
	}
	delta := func(first, last int64, minutes int) backupv1alpha1.Backup {
		return backupv1alpha1.Backup{Kind: "delta", FirstRevision: first, LastRevision: last, Time: at(minutes)}
	}
	from := func(revision int64, minutes int) *backupv1alpha1.RestorePoint {
		return &backupv1alpha1.RestorePoint{Revision: revision, Time: metav1.NewTime(at(minutes).Time)}
	}
	found := &backupv1alpha1.ShootBackups{Chains: []backupv1alpha1.BackupChain{
		{Full: full(200, 60), Deltas: []backupv1alpha1.Backup{delta(201, 210, 61), delta(211, 220, 62)}},
		{Full: full(100, 0), Deltas: []backupv1alpha1.Backup{delta(101, 150, 1), delta(151, 205, 59)}},
	}}
	for name, tc := range map[string]struct {
		to       string
		revision int64
		want     int64 // Revision; 0 for an error.
		backup   int64 // Last revision of the backup that is needed.
		from     *backupv1alpha1.RestorePoint
		failure  string
	}{
		"a time between two deltas":      {to: "2026-01-31T16:01:30Z", want: 210, backup: 210},
		"a time before the newest chain": {to: "2026-01-31T15:59:30Z", want: 205, backup: 205},
		"a time after everything":        {to: "2026-02-01T00:00:00Z", want: 220, backup: 220},
		"a time before everything": {
			to: "2026-01-31T14:59:00Z", failure: "no backup reaches time=2026-01-31T14:59:00Z",
		},
		"a revision in a delta":         {revision: 215, want: 215, backup: 220},
		"a revision of the older chain": {revision: 199, want: 199, backup: 205},
		"a revision of a full snapshot": {revision: 100, want: 100, backup: 100},
		"a revision before everything":  {revision: 99, failure: "no backup reaches revision=99"},
		"a revision after everything":   {revision: 221, failure: "no backup reaches revision=221"},
		"the first revision there is":   {revision: 150, want: 150, backup: 150, from: from(150, 10)},
		"a revision before the first": {
			revision: 149, from: from(150, 10),
			failure: "revision=149: points can be restored from revision 150, 2026-01-31T15:10:00Z, on",
		},
		"a revision without backups": {revision: 1, from: from(150, 10), failure: "from revision 150"},
		"the first time there is":    {to: "2026-01-31T15:10:00Z", want: 150, backup: 150, from: from(150, 10)},
		"a time before the first":    {to: "2026-01-31T15:09:59Z", from: from(150, 10), failure: "from revision 150"},
		"nothing":                    {failure: "--to or --revision"},
		"no time":                    {to: "yesterday", failure: "--to: invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := pointOf(tc.to, tc.revision)
			var u loss
			if err == nil {
				found.RestorableFrom = tc.from
				u, err = undone(found, p)
			}
			if tc.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Fatalf("the error is %v, want %q", err, tc.failure)
				}
				return
			}
			if err != nil || u.revision != tc.want || u.restored.LastRevision != tc.backup || u.newest.LastRevision != 220 {
				t.Errorf("undone() = %+v, %v", u, err)
			}
		})
	}
}

func TestConfirm(t *testing.T) {
	for typed, good := range map[string]bool{
		"demo\n": true, "  demo \n": true, "demo": true, "other\n": false, "": false, "yes\n": false,
	} {
		var out bytes.Buffer
		if err := confirm(strings.NewReader(typed), &out, "demo"); (err == nil) != good {
			t.Errorf("%q gives %v", typed, err)
		}
	}
}
