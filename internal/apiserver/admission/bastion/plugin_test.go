package bastion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/golden"
)

func TestComplete(t *testing.T) {
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		change func(*corev1beta1.Shoot)
		want   string // Part of the error.
	}{
		"a Shoot with machines": {func(*corev1beta1.Shoot) {}, ""},
		"a Shoot that goes":     {func(s *corev1beta1.Shoot) { s.DeletionTimestamp = &metav1.Time{} }, "being deleted"},
		"a Shoot without Seed":  {func(s *corev1beta1.Shoot) { s.Spec.SeedName = nil }, "no Seed yet"},
		"a Shoot without pools": {func(s *corev1beta1.Shoot) { s.Spec.Provider.Workers = nil }, "no machines"},
		"machines that take no SSH": {func(s *corev1beta1.Shoot) {
			s.Spec.Provider.WorkersSettings = &corev1beta1.WorkersSettings{SSHAccess: &corev1beta1.SSHAccess{}}
		}, "sshAccess.enabled"},
	} {
		shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "apple"}, Spec: corev1beta1.ShootSpec{
			SeedName: ptr.To("local-1"), Provider: corev1beta1.Provider{Type: "local", Workers: make([]corev1beta1.Worker, 1)},
		}}
		tc.change(shoot)
		bastion := &operationsv1alpha1.Bastion{Spec: operationsv1alpha1.BastionSpec{
			SeedName: ptr.To("forged"), ProviderType: ptr.To("forged"),
		}}
		errs := complete(bastion, shoot)
		messages[name] = errs.ToAggregate()
		if tc.want != "" {
			if len(errs) != 1 || errs[0].Field != "spec.shootRef.name" || !strings.Contains(errs[0].Detail, tc.want) {
				t.Errorf("%s: %v", name, errs)
			}
			continue
		}
		want := operationsv1alpha1.BastionSpec{SeedName: ptr.To("local-1"), ProviderType: ptr.To("local")}
		if diff := cmp.Diff(want, bastion.Spec); diff != "" || len(errs) > 0 {
			t.Errorf("%s: %v (-want +got):\n%s", name, errs, diff)
		}
	}
	golden.Messages(t, messages)
}

func TestCreatorStays(t *testing.T) {
	annotated := func(user string) *operationsv1alpha1.Bastion {
		b := &operationsv1alpha1.Bastion{}
		if user != "" {
			b.Annotations = map[string]string{corev1beta1.AnnotationCreatedBy: user}
		}
		return b
	}
	for _, written := range []string{"", "b", "a"} {
		bastion := annotated(written)
		keepCreator(bastion, annotated("a"))
		if got := bastion.Annotations[corev1beta1.AnnotationCreatedBy]; got != "a" {
			t.Errorf("an update writes %q: creator is %q", written, got)
		}
	}
}

func TestKeys(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGykj8Nqmi5x5ifc7MlS0R1A8p1rxMWUWnIgmyNXuxVS"
	messages := map[string]error{}
	for name, tc := range map[string]struct {
		key  string
		want string // Part of the error.
	}{
		"a key":                {key, ""},
		"a key with a comment": {key + " me@example.com\n", ""},
		"none":                 {"", ""}, // Reported by validation.
		"something else":       {"hello", "must be a public key"},
		"a key with options":   {`command="sh" ` + key, "no options"},
		"two keys":             {key + "\n" + key, "one public key"},
		"a line after the key": {key + "\nroot", "one public key"},
	} {
		errs := validateKey(tc.key)
		messages[name] = errs.ToAggregate()
		if (len(errs) > 0) != (tc.want != "") || len(errs) > 0 && !strings.Contains(errs[0].Detail, tc.want) {
			t.Errorf("%s: %v, want %q", name, errs, tc.want)
		}
		if len(errs) > 0 && strings.Contains(errs.ToAggregate().Error(), tc.key) {
			t.Errorf("%s: the error contains the key, which may be a private one: %v", name, errs)
		}
	}
	golden.Messages(t, messages)
}
