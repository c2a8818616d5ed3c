package finalizerremoval

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestCleanedUp(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1beta1.ShootStatus
		want   bool
	}{
		"nothing was made":          {corev1beta1.ShootStatus{}, true},
		"no operation has begun":    {corev1beta1.ShootStatus{TechnicalID: "x"}, true},
		"not placed":                {corev1beta1.ShootStatus{LastOperation: &corev1beta1.LastOperation{Type: "Create", State: "Pending"}}, true},
		"it is there":               {corev1beta1.ShootStatus{TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Reconcile", State: "Succeeded", Progress: 100}}, false},
		"the deletion goes on":      {corev1beta1.ShootStatus{TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Processing", Progress: 100}}, false},
		"the deletion is not whole": {corev1beta1.ShootStatus{TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Succeeded", Progress: 99}}, false},
		"it is deleted":             {corev1beta1.ShootStatus{TechnicalID: "x", LastOperation: &corev1beta1.LastOperation{Type: "Delete", State: "Succeeded", Progress: 100}}, true},
	} {
		if got := cleanedUp(&corev1beta1.Shoot{Status: tc.status}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUserAmong(t *testing.T) {
	shoots := []corev1beta1.Shoot{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1beta1.ShootSpec{SecretBindingName: ptr.To("x")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1beta1.ShootSpec{CredentialsBindingName: ptr.To("x")}},
	}
	if got := userAmong(shoots, true, "x"); got != "a" {
		t.Errorf("SecretBinding is used by %q", got)
	}
	if got := userAmong(shoots, false, "x"); got != "b" {
		t.Errorf("CredentialsBinding is used by %q", got)
	}
	if got := userAmong(shoots, false, "y"); got != "" {
		t.Errorf("an unused binding is used by %q", got)
	}
}
