package tokenmount

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestAccountOfThePodDecides(t *testing.T) {
	owner := account(ptr.To(false))
	owner.ObjectMeta = metav1.ObjectMeta{Namespace: "extension-a", Name: "a"}
	change := Change(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(owner).Build())
	for name, tc := range map[string]struct {
		account string
		want    bool
	}{
		"an account without token":       {"a", true},
		"an account that does not exist": {"b", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := change(t.Context(), "extension-a",
				newPod(func(p *corev1.Pod) { p.Namespace, p.Spec.ServiceAccountName = "", tc.account }))
			if err != nil || got != tc.want {
				t.Errorf("Change() = %t, %v, want %t", got, err, tc.want)
			}
		})
	}
}
