package v1beta1

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestParseRestorePoint(t *testing.T) {
	for value, want := range map[string]string{
		"revision=12": "12", "time=2026-01-31T16:04:05+01:00": "2026-01-31T15:04:05Z", " revision=1 ": "1",
		"revision=0": "", "revision=-1": "", "revision=a": "", "time=yesterday": "", "12": "", "": "", "revision": "",
		"until=12": "",
	} {
		revision, at, err := ParseRestorePoint(value)
		got := ""
		switch {
		case err != nil:
		case revision > 0 && at.IsZero():
			got = strings.TrimPrefix(strings.TrimSpace(value), "revision=")
		case revision == 0:
			got = at.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("ParseRestorePoint(%q) = %d, %s, %v; want %q", value, revision, at, err, want)
		}
	}
}

func TestRestoresAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		value  string
		change func(*Shoot)
		want   string // Part of the error; empty for none.
	}{
		"a revision":     {value: "revision=12"},
		"a time":         {value: "time=2026-01-31T15:04:05Z"},
		"another format": {value: "12", want: "must be revision=NUMBER or time="},
		"deleted": {
			change: func(s *Shoot) { s.DeletionTimestamp = ptr.To(metav1.Now()) }, want: "is being deleted",
		},
		"not created": {change: func(s *Shoot) { s.Status.TechnicalID = "" }, want: "has no control plane yet"},
		"to be hibernated": {
			change: func(s *Shoot) { s.Spec.Hibernation = &Hibernation{Enabled: ptr.To(true)} }, want: "Wake it up first",
		},
		"still hibernated": {change: func(s *Shoot) { s.Status.IsHibernated = true }, want: "Wake it up first"},
		"moving":           {change: func(s *Shoot) { s.Status.SeedName = ptr.To("old") }, want: "being moved"},
		"several members": {
			change: func(s *Shoot) { s.Spec.ControlPlane = &ControlPlane{HighAvailability: &HighAvailability{}} },
			want:   "several members",
		},
		"a rotation is in progress": {
			change: keyRotation(RotationPrepared), want: "rotation of the service account key is Prepared. Complete it first",
		},
		"a rotation is complete": {change: keyRotation(RotationCompleted)},
		"requested before, then hibernated": {change: func(s *Shoot) {
			s.Status.IsHibernated = true
			s.Labels = map[string]string{"old": "same"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Shoot{
				Spec: ShootSpec{SeedName: ptr.To("s")}, Status: ShootStatus{TechnicalID: "shoot--dev--a", SeedName: ptr.To("s")},
			}
			old := s.DeepCopy()
			if tc.value == "" {
				tc.value = "revision=1"
			}
			s.Annotations = map[string]string{AnnotationRestoreBackup: tc.value}
			if tc.change != nil {
				tc.change(s)
			}
			if s.Labels["old"] == "same" {
				old.Annotations = s.Annotations
			}
			errs := validateRestore(s, old)
			if (len(errs) > 0) != (tc.want != "") || len(errs) > 0 && !strings.Contains(errs[0].Error(), tc.want) {
				t.Errorf("validateRestore() = %v, want %q", errs, tc.want)
			}
		})
	}
}

func keyRotation(phase CredentialsRotationPhase) func(*Shoot) {
	return func(s *Shoot) {
		s.Status.Credentials = &ShootCredentials{
			Rotation: &ShootCredentialsRotation{ServiceAccountKey: &ServiceAccountKeyRotation{Phase: phase}},
		}
	}
}
