package steps

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// A pool that waits for its roll-out keeps its rotations; another pool of the same Shoot follows the new ones.
func TestRotationTimes(t *testing.T) {
	before := &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	last := &metav1.Time{Time: before.Add(24 * time.Hour)}
	waits := func(since *metav1.Time) []corev1beta1.PendingWorkersRollout {
		return []corev1beta1.PendingWorkersRollout{
			{Name: "other", LastInitiationTime: last}, {Name: "pool", LastInitiationTime: since},
		}
	}
	times := func(ca, key *metav1.Time) *extensionsv1alpha1.CredentialsRotation {
		out := &extensionsv1alpha1.CredentialsRotation{}
		if ca != nil {
			out.CertificateAuthorities = &extensionsv1alpha1.CARotation{LastInitiationTime: ca}
		}
		if key != nil {
			out.ServiceAccountKey = &extensionsv1alpha1.ServiceAccountKeyRotation{LastInitiationTime: key}
		}
		return out
	}
	type rollouts = []corev1beta1.PendingWorkersRollout
	for name, tc := range map[string]struct {
		ca, key rollouts
		want    *extensionsv1alpha1.CredentialsRotation
	}{
		"rolled":                               {want: times(last, last)},
		"waits for both":                       {ca: waits(before), key: waits(before), want: times(before, before)},
		"waits for the CAs only":               {ca: waits(before), want: times(before, last)},
		"waits for the key only":               {key: waits(before), want: times(last, before)},
		"waits for the first rotation of both": {ca: waits(nil), key: waits(nil), want: nil},
		"waits for the first rotation of one":  {ca: waits(nil), want: times(nil, last)},
		"was added while all other pools wait": {ca: waits(nil)[:1], key: waits(nil)[:1], want: times(last, last)},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{}
			shoot.Status.Credentials = &corev1beta1.ShootCredentials{Rotation: &corev1beta1.ShootCredentialsRotation{
				CertificateAuthorities: &corev1beta1.CARotation{LastInitiationTime: last, PendingWorkersRollouts: tc.ca},
				ServiceAccountKey: &corev1beta1.ServiceAccountKeyRotation{
					LastInitiationTime: last, PendingWorkersRollouts: tc.key,
				},
			}}
			if diff := cmp.Diff(tc.want, rotationTimes(shoot, "pool")); diff != "" {
				t.Errorf("rotationTimes() (-want +got):\n%s", diff)
			}
		})
	}
}
