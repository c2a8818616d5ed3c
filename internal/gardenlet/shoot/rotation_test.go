package shoot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
	"hortus.dev/hortus/internal/secretsmanager"
)

func TestAdoptRotations(t *testing.T) {
	const preparing, prepared = corev1beta1.RotationPreparing, corev1beta1.RotationPrepared
	const completing, completed = corev1beta1.RotationCompleting, corev1beta1.RotationCompleted
	at := func(hours int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(hours) * time.Hour)} }
	unfinished := func(hours int) secretsmanager.Rotation {
		return secretsmanager.Rotation{Initiated: at(hours).Time, Unfinished: true}
	}
	finished := func(hours int) secretsmanager.Rotation { return secretsmanager.Rotation{Initiated: at(hours).Time} }
	type record struct {
		phase     corev1beta1.CredentialsRotationPhase
		initiated *metav1.Time
		completed *metav1.Time
	}
	at0, at1, at2, at3 := at(0), at(1), at(2), at(3)
	never, nothing := record{}, secretsmanager.Rotation{}
	for name, tc := range map[string]struct {
		status  record
		secrets secretsmanager.Rotation
		want    record // None: the status stays.
	}{
		"never rotated":                           {never, nothing, never},
		"begins now":                              {record{preparing, at2, at1}, unfinished(0), never},
		"known, preparing":                        {record{preparing, at2, nil}, unfinished(2), never},
		"known, completed":                        {record{completed, at2, at3}, finished(2), never},
		"restored to preparing though completed":  {record{preparing, at2, nil}, finished(2), never},
		"restored to prepared though completed":   {record{prepared, at2, nil}, finished(2), never},
		"restored to completing though completed": {record{completing, at2, nil}, finished(2), never},
		"lost, with old ones":                     {never, unfinished(2), record{preparing, at2, nil}},
		"lost, without old ones":                  {never, finished(2), record{completed, at2, at2}},
		"restored to the one before, with old":    {record{completed, at0, at1}, unfinished(2), record{preparing, at2, at1}},
		"restored to the one before, without old": {record{completed, at0, at1}, finished(2), record{completed, at2, at2}},
		"restored to completing the one before":   {record{completing, at0, nil}, unfinished(2), record{preparing, at2, nil}},
		"restored to preparing the one before":    {record{preparing, at0, nil}, finished(2), record{completed, at2, at2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.Spec.Kubernetes.Version = "1.36.3"
			if in := tc.status; in.initiated != nil {
				r := rotation(s)
				r.CertificateAuthorities = &corev1beta1.CARotation{
					Phase: in.phase, LastInitiationTime: in.initiated, LastCompletionTime: in.completed,
				}
				r.ServiceAccountKey = &corev1beta1.ServiceAccountKeyRotation{
					Phase: in.phase, LastInitiationTime: in.initiated, LastCompletionTime: in.completed,
				}
				r.ETCDEncryptionKey = &corev1beta1.ETCDEncryptionKeyRotation{
					Phase: in.phase, LastInitiationTime: in.initiated, LastCompletionTime: in.completed,
				}
				r.SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{
					LastInitiationTime: in.initiated, LastCompletionTime: in.completed,
				}
			}
			before := s.DeepCopy()
			seen := steps.ObservedRotations{
				CertificateAuthorities: tc.secrets, ServiceAccountKey: tc.secrets,
				EncryptionKey: tc.secrets, SSHKeypair: tc.secrets,
			}
			adopted := adoptRotations(s, seen)
			if tc.want == never {
				if diff := cmp.Diff(before.Status, s.Status); diff != "" || len(adopted) > 0 {
					t.Errorf("the status changed, adopted %v (-want +got):\n%s", adopted, diff)
				}
				return
			}
			want := &corev1beta1.ShootCredentialsRotation{
				CertificateAuthorities: &corev1beta1.CARotation{
					Phase: tc.want.phase, LastInitiationTime: tc.want.initiated, LastCompletionTime: tc.want.completed,
				},
				ServiceAccountKey: &corev1beta1.ServiceAccountKeyRotation{
					Phase: tc.want.phase, LastInitiationTime: tc.want.initiated, LastCompletionTime: tc.want.completed,
				},
				ETCDEncryptionKey: &corev1beta1.ETCDEncryptionKeyRotation{
					Phase: tc.want.phase, LastInitiationTime: tc.want.initiated, LastCompletionTime: tc.want.completed,
					AutoCompleteAfterPrepared: ptr.To(true),
				},
				SSHKeypair: &corev1beta1.ShootSSHKeypairRotation{
					LastInitiationTime: tc.want.initiated, LastCompletionTime: tc.status.completed,
				},
			}
			if diff := cmp.Diff(want, rotation(s)); diff != "" || len(adopted) != 4 {
				t.Errorf("rotations, adopted %v (-want +got):\n%s", adopted, diff)
			}
			if again := adoptRotations(s, seen); len(again) > 0 {
				t.Errorf("adopted again: %v", again)
			}
		})
	}
}

// Clocks of two gardenlets may differ; a rotation is later than the one before nevertheless.
func TestInitiationIsLaterThanTheLast(t *testing.T) {
	for name, tc := range map[string]struct {
		last *metav1.Time
		want time.Time
	}{
		"the first":             {nil, now},
		"long ago":              {&metav1.Time{Time: now.Add(-time.Hour)}, now},
		"in the same second":    {&metav1.Time{Time: now}, now.Add(time.Second)},
		"by a clock in advance": {&metav1.Time{Time: now.Add(time.Minute)}, now.Add(61 * time.Second)},
	} {
		if got := initiation(now, tc.last); !got.Time.Equal(tc.want) {
			t.Errorf("%s: initiation() = %s, want %s", name, got, tc.want)
		}
	}
}
