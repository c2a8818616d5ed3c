package care

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// backedUp is a healthy Shoot, created a day ago, whose etcd is backed up.
func backedUp() *Observed {
	o := healthyShoot()
	o.Etcd.CreationTimestamp = metav1.Time{Time: now.Add(-24 * time.Hour)}
	o.Backups = &Backups{Status: etcdbackup.Status{
		Phase: etcdbackup.PhaseActive, Epoch: 1, Holder: "local-1", EtcdRevision: 9, SavedRevision: 9, Chains: 1,
		Location: `S3 bucket "backups"`, Prefix: "shoot--dev--a--1/etcd-main",
		LastFull: &chain.Object{Created: now.Add(-time.Hour)},
	}}
	return o
}

// restarted is the status of a process that has not reached the store yet.
func restarted(s *etcdbackup.Status) {
	*s = etcdbackup.Status{Phase: etcdbackup.PhaseFailing, Epoch: 1, Location: s.Location, Prefix: s.Prefix,
		LastError: &etcdbackup.Failure{Operation: "session", Message: "list objects: no answer. Check the endpoint."}}
}

func silent(o *Observed, _ *etcdbackup.Status) {
	o.Backups = &Backups{Error: errors.New("connection refused")}
}

func TestBackups(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Observed, *etcdbackup.Status)
		old    *corev1beta1.Condition
		status corev1beta1.ConditionStatus // True if empty.
		reason string
		// parts of the message.
		parts []string
	}{
		"everything is saved": {reason: "ControlPlaneRunning"},
		"without backups": {change: func(o *Observed, _ *etcdbackup.Status) {
			o.Backups = nil
		}, reason: "ControlPlaneRunning"},
		"a little behind": {change: func(_ *Observed, s *etcdbackup.Status) {
			s.SecondsBehind = 300
		}, reason: "ControlPlaneRunning"},
		"another member leads": {change: func(_ *Observed, s *etcdbackup.Status) {
			*s = etcdbackup.Status{Phase: etcdbackup.PhaseStandby}
		}, reason: "ControlPlaneRunning"},
		"verified with success": {change: func(_ *Observed, s *etcdbackup.Status) {
			s.LastVerification = &etcdbackup.Verification{}
		}, reason: "ControlPlaneRunning"},
		"an upload has failed and is retried": {change: func(_ *Observed, s *etcdbackup.Status) {
			s.SecondsBehind, s.LastError = 100, &etcdbackup.Failure{Operation: "delta", Message: "no answer"}
		}, reason: "ControlPlaneRunning"},
		"far behind": {
			change: func(_ *Observed, s *etcdbackup.Status) {
				s.SecondsBehind = 3600
				s.LastError = &etcdbackup.Failure{Operation: "delta", Message: "upload: no answer.\nCheck the endpoint."}
			}, status: "False", reason: "BackupsBehind",
			parts: []string{"2026-03-01T11:00:00Z", `S3 bucket "backups", prefix shoot--dev--a--1/etcd-main`,
				"Last error (delta): upload: no answer. Check the endpoint. Check the object store"},
		},
		"no full snapshot": {
			change: func(_ *Observed, s *etcdbackup.Status) {
				s.LastFull, s.Chains, s.Phase = nil, 0, etcdbackup.PhaseFailing
			}, status: "False", reason: "FullSnapshotMissing", parts: []string{"2026-02-28T12:00:00Z", "S3 bucket"},
		},
		"no full snapshot yet": {
			change: func(o *Observed, s *etcdbackup.Status) {
				o.Etcd.CreationTimestamp.Time = now.Add(-9 * time.Minute)
				s.LastFull, s.Chains = nil, 0
			}, reason: "ControlPlaneRunning",
		},
		"the last verification failed": {
			change: func(_ *Observed, s *etcdbackup.Status) {
				s.LastVerification = &etcdbackup.Verification{Time: now.Add(-time.Hour), Revision: 7, Error: "checksums differ"}
			}, status: "False", reason: "BackupVerificationFailed",
			parts: []string{"2026-03-01T11:00:00Z", "revision 7", "checksums differ"},
		},
		"superseded": {
			change: func(_ *Observed, s *etcdbackup.Status) { s.Phase = etcdbackup.PhaseSuperseded },
			status: "False", reason: "BackupsSuperseded", parts: []string{`epoch 1 of "local-1"`},
		},
		"two problems have the reason of the permanent one": {
			change: func(_ *Observed, s *etcdbackup.Status) {
				s.SecondsBehind, s.LastVerification = 3600, &etcdbackup.Verification{Error: "checksums differ"}
			}, status: "False", reason: "BackupVerificationFailed",
		},
		"the store is unreachable since a restart": {
			change: func(_ *Observed, s *etcdbackup.Status) { restarted(s) }, status: "Progressing", reason: "BackupsFailing",
			parts: []string{"phase Failing", "Last error (session): list objects"},
		},
		"the status cannot be read": {
			change: func(o *Observed, _ *etcdbackup.Status) {
				o.Backups = &Backups{Error: errors.New("read tcp 10.0.0.1:40000->10.0.0.2:2382: connection refused")}
			}, status: "Progressing", reason: "BackupStatusUnavailable",
			parts: []string{"read tcp 10.0.0.2:2382: connection refused"},
		},
		"a new condition has the threshold, too": {
			change: silent,
			old:    &corev1beta1.Condition{Status: "Unknown"}, status: "Progressing", reason: "BackupStatusUnavailable",
		},
		"the status cannot be read for minutes": {
			change: silent,
			old: &corev1beta1.Condition{Status: "Progressing", Reason: "BackupStatusUnavailable",
				LastTransitionTime: metav1.Time{Time: now.Add(-6 * time.Minute)}},
			status: "False", reason: "BackupStatusUnavailable",
		},
		"a restart of the process does not end a known problem": {
			change: func(_ *Observed, s *etcdbackup.Status) { restarted(s) },
			old:    &corev1beta1.Condition{Status: "False", Reason: "BackupsBehind"}, status: "False", reason: "BackupsBehind",
		},
		"nor does silence": {
			change: silent,
			old:    &corev1beta1.Condition{Status: "False", Reason: "BackupVerificationFailed"},
			status: "False", reason: "BackupVerificationFailed", parts: []string{"cannot be read"},
		},
		"a known problem ends when everything is saved": {
			old: &corev1beta1.Condition{Status: "False", Reason: "BackupsBehind"}, reason: "ControlPlaneRunning",
		},
		"an unreachable process is replaced by a known problem": {
			change: func(o *Observed, _ *etcdbackup.Status) {
				silent(o, nil)
				o.Reports = []Report{{Kind: "ControlPlane", Name: "a", Condition: corev1beta1.Condition{
					Type: corev1beta1.ShootControlPlaneHealthy, Status: "False", Message: "ccm is down"}}}
			}, status: "False", reason: "ControlPlaneUnhealthyReport",
		},
		"a hibernated Shoot is not checked": {
			change: func(o *Observed, s *etcdbackup.Status) {
				o.Shoot.Spec.Hibernation, o.Shoot.Status.IsHibernated = &corev1beta1.Hibernation{Enabled: ptr.To(true)}, true
				s.SecondsBehind = 3600
			}, reason: reasonNotChecked,
		},
		"credentials are not quoted": {
			change: func(o *Observed, s *etcdbackup.Status) {
				s.SecondsBehind, s.Location = 3600, `S3 bucket "b" at https://key:geheim@s3.example.com`
				s.LastError = &etcdbackup.Failure{
					Message: "PUT https://s3.example.com/b?X-Amz-Signature=geheim: " + strings.Repeat("x", 1000)}
			}, status: "False", reason: "BackupsBehind",
			parts: []string{"https://s3.example.com,", "PUT https://s3.example.com/b ", "[...]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := backedUp()
			if tc.change != nil {
				tc.change(o, &o.Backups.Status)
			}
			old := tc.old
			if old == nil {
				old = &corev1beta1.Condition{Status: "True"}
			}
			old.Type = corev1beta1.ShootControlPlaneHealthy
			o.Shoot.Status.Conditions = []corev1beta1.Condition{*old}
			c := corev1beta1.FindCondition(Conditions(o, Settings{}), corev1beta1.ShootControlPlaneHealthy)
			want := tc.status
			if want == "" {
				want = corev1beta1.ConditionTrue
			}
			if c.Status != want || c.Reason != tc.reason {
				t.Errorf("condition = %s, %s (%s), want %s, %s", c.Status, c.Reason, c.Message, want, tc.reason)
			}
			for _, part := range tc.parts {
				if !strings.Contains(c.Message, part) {
					t.Errorf("message = %q, want it to contain %q", c.Message, part)
				}
			}
			if strings.Contains(c.Message, "geheim") || len(c.Message) > 1200 {
				t.Errorf("message = %q", c.Message)
			}
		})
	}
}
