package admission

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

func TestIndexes(t *testing.T) {
	shoot := &corev1beta1.Shoot{
		Spec: corev1beta1.ShootSpec{
			SeedName: ptr.To("new"), SecretBindingName: ptr.To("s"), CredentialsBindingName: ptr.To("c"),
			DNS: &corev1beta1.DNS{Domain: ptr.To("a.dev.x.org")},
		},
		Status: corev1beta1.ShootStatus{SeedName: ptr.To("old")},
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   []string
	}{
		indexSeed:        {shoot, []string{"new", "old"}},
		indexBinding:     {shoot, []string{"SecretBinding/s", "CredentialsBinding/c"}},
		indexDomain:      {shoot, []string{"a.dev.x.org"}},
		indexDomainBelow: {shoot, []string{"dev.x.org", "x.org", "org"}},
		indexNamespace:   {&corev1beta1.Project{}, nil},
		indexCredentials: {&securityv1alpha1.CredentialsBinding{CredentialsRef: corev1.ObjectReference{
			Kind: "Secret", Namespace: "n", Name: "s",
		}}, []string{"Secret/n/s"}},
	} {
		for _, index := range indexes() {
			if index.name != name || !sameType(index.object, tc.object) {
				continue
			}
			if diff := cmp.Diff(tc.want, index.keys(tc.object)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	shoot.Status.SeedName = ptr.To("new")
	for _, index := range indexes() {
		if index.name == indexSeed && len(index.keys(shoot)) != 1 {
			t.Errorf("a Shoot counts twice on its Seed: %v", index.keys(shoot))
		}
	}
}

func sameType(a, b client.Object) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

func TestLittleIsKeptOfShoots(t *testing.T) {
	shoot := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden-dev", Name: "s", UID: "u", ResourceVersion: "1", Annotations: map[string]string{"a": "b"},
		},
		Spec: corev1beta1.ShootSpec{
			SeedName: ptr.To("seed"), Purpose: ptr.To(corev1beta1.ShootPurposeTesting),
			DNS: &corev1beta1.DNS{Domain: ptr.To("d"), Providers: make([]corev1beta1.DNSProvider, 1)},
			Provider: corev1beta1.Provider{
				Type: "local", Workers: []corev1beta1.Worker{{Name: "p", Maximum: 3, Labels: map[string]string{"a": "b"}}},
			},
		},
	}
	before := shoot.DeepCopy()
	got, err := keepOfShoot(shoot)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "s", UID: "u", ResourceVersion: "1"},
		Spec: corev1beta1.ShootSpec{
			SeedName: ptr.To("seed"), DNS: &corev1beta1.DNS{Domain: ptr.To("d")},
			Provider: corev1beta1.Provider{Type: "local", Workers: []corev1beta1.Worker{{Name: "p", Maximum: 3}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keepOfShoot() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, shoot); diff != "" {
		t.Errorf("keepOfShoot() changes the Shoot:\n%s", diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "k"}
	if got, err := keepOfShoot(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("a tombstone becomes %v, %v", got, err)
	}
}

func TestPluralOf(t *testing.T) {
	for kind, want := range map[string]string{
		"Secret": "secrets", "ConfigMap": "configmaps", "WorkloadIdentity": "workloadidentities", "Quota": "quotas",
		"InternalSecret": "internalsecrets",
	} {
		if got := pluralOf(kind); got != want {
			t.Errorf("pluralOf(%s) = %s", kind, got)
		}
	}
}
