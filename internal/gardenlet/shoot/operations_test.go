package shoot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// allPhases of a rotation with two steps.
var allPhases = []corev1beta1.CredentialsRotationPhase{
	"", corev1beta1.RotationPreparing, corev1beta1.RotationPreparingWithoutWorkersRollout,
	corev1beta1.RotationWaitingForWorkersRollout,
	corev1beta1.RotationPrepared, corev1beta1.RotationCompleting, corev1beta1.RotationCompleted,
}

// inPhase is a Shoot with all its rotations in one phase, initiated an hour ago.
func inPhase(phase corev1beta1.CredentialsRotationPhase) *corev1beta1.Shoot {
	ago := &metav1.Time{Time: now.Add(-time.Hour)}
	s := &corev1beta1.Shoot{}
	s.Spec.Kubernetes.Version = "1.33.1"
	s.Spec.Provider.Workers = []corev1beta1.Worker{{Name: "a"}}
	if phase == "" {
		return s
	}
	r := rotation(s)
	r.CertificateAuthorities = &corev1beta1.CARotation{Phase: phase, LastInitiationTime: ago}
	r.ServiceAccountKey = &corev1beta1.ServiceAccountKeyRotation{Phase: phase, LastInitiationTime: ago}
	r.ETCDEncryptionKey = &corev1beta1.ETCDEncryptionKeyRotation{Phase: phase, LastInitiationTime: ago}
	return s
}

// phases by credential; others have none.
func phases(s *corev1beta1.Shoot) map[string]corev1beta1.CredentialsRotationPhase {
	r, out := rotation(s), map[string]corev1beta1.CredentialsRotationPhase{}
	if ca := r.CertificateAuthorities; ca != nil {
		out["ca"] = ca.Phase
	}
	if key := r.ServiceAccountKey; key != nil {
		out["key"] = key.Phase
	}
	if etcd := r.ETCDEncryptionKey; etcd != nil {
		out["etcd"] = etcd.Phase
	}
	return out
}

func TestRotationsBeginAndCompleteOnlyWhereTheyMay(t *testing.T) {
	const preparing, without = corev1beta1.RotationPreparing, corev1beta1.RotationPreparingWithoutWorkersRollout
	const completing = corev1beta1.RotationCompleting
	type want map[string]corev1beta1.CredentialsRotationPhase
	starts := map[string]want{
		corev1beta1.OperationRotateCredentialsStart: {
			"ca": preparing, "key": preparing, "etcd": preparing,
		},
		corev1beta1.OperationRotateCredentialsStartWithoutWorkersRollout: {
			"ca": without, "key": without, "etcd": preparing,
		},
		corev1beta1.OperationRotateCAStart:                                     {"ca": preparing},
		corev1beta1.OperationRotateCAStartWithoutWorkersRollout:                {"ca": without},
		corev1beta1.OperationRotateServiceAccountKeyStart:                      {"key": preparing},
		corev1beta1.OperationRotateServiceAccountKeyStartWithoutWorkersRollout: {"key": without},
		corev1beta1.OperationRotateETCDEncryptionKey:                           {"etcd": preparing},
		corev1beta1.OperationRotateETCDEncryptionKeyStart:                      {"etcd": preparing},
	}
	completions := map[string]want{
		corev1beta1.OperationRotateCredentialsComplete:       {"ca": completing, "key": completing, "etcd": completing},
		corev1beta1.OperationRotateCAComplete:                {"ca": completing},
		corev1beta1.OperationRotateServiceAccountKeyComplete: {"key": completing},
		corev1beta1.OperationRotateETCDEncryptionKeyComplete: {"etcd": completing},
	}
	check := func(operation string, phase corev1beta1.CredentialsRotationPhase, may bool, changed want) {
		t.Helper()
		s := inPhase(phase)
		wanted := phases(s)
		if may {
			for credential, next := range changed {
				wanted[credential] = next
			}
		}
		startOperation(s, operation, now)
		got := phases(s)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s in phase %q (-want +got):\n%s", operation, phase, diff)
		}
		before := &metav1.Time{Time: now.Add(-time.Hour)}
		if ca := rotation(s).CertificateAuthorities; ca != nil && ca.Phase == phase && !ca.LastInitiationTime.Equal(before) {
			t.Errorf("%s in phase %q changed the initiation to %s", operation, phase, ca.LastInitiationTime)
		}
	}
	for _, phase := range allPhases {
		for operation, changed := range starts {
			check(operation, phase, phase == "" || phase == corev1beta1.RotationCompleted, changed)
		}
		for operation, changed := range completions {
			check(operation, phase, phase == corev1beta1.RotationPrepared, changed)
		}
	}
}

// While one credential is being rotated, the others can begin, and that one does not begin again.
func TestOnlyIdleCredentialsAreRotated(t *testing.T) {
	s := inPhase(corev1beta1.RotationCompleted)
	rotation(s).CertificateAuthorities.Phase = corev1beta1.RotationPrepared
	startOperation(s, corev1beta1.OperationRotateCredentialsStart, now)
	want := map[string]corev1beta1.CredentialsRotationPhase{
		"ca": corev1beta1.RotationPrepared, "key": corev1beta1.RotationPreparing, "etcd": corev1beta1.RotationPreparing,
	}
	if diff := cmp.Diff(want, phases(s)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestRotationsWithoutPhasesBeginOnce(t *testing.T) {
	at := func(minutes int) *metav1.Time {
		return &metav1.Time{Time: now.Add(time.Duration(minutes) * time.Minute)}
	}
	for name, tc := range map[string]struct {
		initiated, completed *metav1.Time
		want                 *metav1.Time
	}{
		"never rotated":                {nil, nil, at(0)},
		"rotated before":               {at(-60), at(-50), at(0)},
		"the first one is in progress": {at(-5), nil, at(-5)},
		"another one is in progress":   {at(-5), at(-60), at(-5)},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1beta1.Shoot{}
			rotation(s).SSHKeypair = &corev1beta1.ShootSSHKeypairRotation{
				LastInitiationTime: tc.initiated, LastCompletionTime: tc.completed,
			}
			rotation(s).Observability = &corev1beta1.ObservabilityRotation{
				LastInitiationTime: tc.initiated, LastCompletionTime: tc.completed,
			}
			startOperation(s, corev1beta1.OperationRotateSSHKeypair, now)
			startOperation(s, corev1beta1.OperationRotateObservabilityCredentials, now)
			if got := rotation(s).SSHKeypair.LastInitiationTime; !got.Equal(tc.want) {
				t.Errorf("initiation of the SSH key pair = %s, want %s", got, tc.want)
			}
			if got := rotation(s).Observability.LastInitiationTime; !got.Equal(tc.want) {
				t.Errorf("initiation of observability = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestStartRollout(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	type rollouts = []corev1beta1.PendingWorkersRollout
	of := func(pool string, since time.Duration) corev1beta1.PendingWorkersRollout {
		return corev1beta1.PendingWorkersRollout{Name: pool, LastInitiationTime: at(since)}
	}
	for name, tc := range map[string]struct {
		pending   rollouts
		operation string
		want      rollouts
	}{
		"one pool":            {nil, "rollout-workers=a", rollouts{of("a", 0)}},
		"two pools":           {nil, "rollout-workers=b,a", rollouts{of("a", 0), of("b", 0)}},
		"all that are rolled": {nil, "rollout-workers=*", rollouts{of("a", 0), of("b", 0)}},
		"one more": {
			rollouts{of("a", -time.Hour)}, "rollout-workers=b", rollouts{of("a", -time.Hour), of("b", 0)},
		},
		"once more":                   {rollouts{of("a", -time.Hour)}, "rollout-workers=a", rollouts{of("a", 0)}},
		"twice within a second":       {rollouts{of("a", 0)}, "rollout-workers=a", rollouts{of("a", time.Second)}},
		"a pool updated in place":     {nil, "rollout-workers=c", nil},
		"a pool that is gone":         {nil, "rollout-workers=d", nil},
		"pools that follow rotations": {nil, "rotate-rollout-workers=a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{}
			shoot.Spec.Provider.Workers = []corev1beta1.Worker{
				{Name: "a"}, {Name: "b"}, {Name: "c", UpdateStrategy: ptr.To(corev1beta1.AutoInPlaceUpdate)},
			}
			if tc.pending != nil {
				shoot.Status.ManualWorkerPoolRollout = &corev1beta1.ManualWorkerPoolRollout{PendingWorkersRollouts: tc.pending}
			}
			startOperation(shoot, tc.operation, now)
			var got rollouts
			if r := shoot.Status.ManualWorkerPoolRollout; r != nil {
				got = r.PendingWorkersRollouts
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pendingWorkersRollouts (-want +got):\n%s", diff)
			}
		})
	}
}
