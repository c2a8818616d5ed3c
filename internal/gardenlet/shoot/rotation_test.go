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
		want    record // No adopted rotation: the status stays.
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
		"restored to previous, with old":          {record{completed, at0, at1}, unfinished(2), record{preparing, at2, at1}},
		"restored to previous, without old":       {record{completed, at0, at1}, finished(2), record{completed, at2, at2}},
		"restored to completing previous":         {record{completing, at0, nil}, unfinished(2), record{preparing, at2, nil}},
		"restored to preparing previous":          {record{preparing, at0, nil}, finished(2), record{completed, at2, at2}},
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

// A rotation is later than the previous one even if the clocks of two gardenlets differ.
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

// Times in the status have no fractions: a rotation that begins in the second in which the last one was completed is
// completed, too.
func TestRotationsFollowAtOnce(t *testing.T) {
	s := &corev1beta1.Shoot{}
	at := now.Truncate(time.Second).Add(100 * time.Millisecond)
	for i := range 5 {
		startSSH(s, at)
		stored := s.DeepCopy()
		ssh := stored.Status.Credentials.Rotation.SSHKeypair
		for _, t := range []*metav1.Time{ssh.LastInitiationTime, ssh.LastCompletionTime} {
			if t != nil {
				t.Time = t.Truncate(time.Second)
			}
		}
		if !underWay(ssh.LastInitiationTime, ssh.LastCompletionTime) {
			t.Fatalf("rotation %d does not begin: %+v", i, ssh)
		}
		finishRotation(&stored.Status, at.Add(100*time.Millisecond))
		if underWay(ssh.LastInitiationTime, ssh.LastCompletionTime) {
			t.Fatalf("rotation %d does not end: %+v", i, ssh)
		}
		s = stored
	}
}

// A rotation that leaves the roll-out to the user waits only if there are pools to roll.
func TestRotationWithoutRolloutIsPrepared(t *testing.T) {
	const waiting, prepared = corev1beta1.RotationWaitingForWorkersRollout, corev1beta1.RotationPrepared
	type pools = []corev1beta1.Worker
	for name, tc := range map[string]struct {
		pools      pools
		hibernated bool
		manual     []string // Pools with a manual update in progress.
		want       corev1beta1.CredentialsRotationPhase
	}{
		"with pools":                         {pools: pools{{Name: "a"}, {Name: "b"}}, want: waiting},
		"without workers":                    {want: prepared},
		"hibernated":                         {pools: pools{{Name: "a"}}, hibernated: true, want: prepared},
		"during the manual update of a pool": {manual: []string{"a"}, want: waiting},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			s.Spec.Kubernetes.Version, s.Spec.Provider.Workers = "1.36.3", tc.pools
			s.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &tc.hibernated}
			startOperation(s, corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout, now)
			setPending(s, nil, tc.manual)
			finishRotation(&s.Status, now.Add(time.Minute))
			want := map[string]corev1beta1.CredentialsRotationPhase{"ca": tc.want, "key": tc.want, "etcd": prepared}
			if diff := cmp.Diff(want, phases(s)); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
			ca := rotation(s).CertificateAuthorities
			if finished := ca.LastInitiationFinishedTime; (finished != nil) != (tc.want == prepared) {
				t.Errorf("lastInitiationFinishedTime = %v in phase %s", finished, ca.Phase)
			}
			// The pools are rolled one after the other, and the phases follow.
			setPending(s, nil, nil)
			rotatePools(s, []string{"a"})
			finishRotation(&s.Status, now.Add(2*time.Minute))
			want["ca"], want["key"] = prepared, prepared
			if len(tc.pools) == 2 {
				want["ca"], want["key"] = waiting, waiting
			}
			if diff := cmp.Diff(want, phases(s)); diff != "" {
				t.Errorf("phases after pool a (-want +got):\n%s", diff)
			}
		})
	}
}
