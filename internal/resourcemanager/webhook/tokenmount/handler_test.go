package tokenmount

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	admissionv1 "k8s.io/api/admission/v1"
)

func TestHandler(t *testing.T) {
	owner := account(ptr.To(false))
	owner.ObjectMeta = metav1.ObjectMeta{Namespace: "extension-a", Name: "a"}
	h := &Handler{
		Reader:  fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(owner).Build(),
		Decoder: admission.NewDecoder(clientgoscheme.Scheme),
	}
	for name, tc := range map[string]struct {
		account string
		patches int
	}{
		"an account without token":       {"a", 3}, // One volume, and a mount in two of three containers.
		"an account that does not exist": {"b", 0},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(newPod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = tc.account }))
			if err != nil {
				t.Fatal(err)
			}
			got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "extension-a", Object: runtime.RawExtension{Raw: raw},
			}})
			if !got.Allowed || len(got.Patches) != tc.patches {
				t.Errorf("Handle() = %+v, want it allowed with %d patches", got, tc.patches)
			}
		})
	}
	if got := h.Handle(t.Context(), admission.Request{}); got.Allowed {
		t.Errorf("Handle() of nothing = %+v, want it refused", got)
	}
}
