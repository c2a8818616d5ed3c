package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestAnswers(t *testing.T) {
	const known = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[],"fieldOfTheFuture":1}}`
	for name, tc := range map[string]struct {
		object  string
		changed bool
		err     error
		allowed bool
		patches string
	}{
		"a change keeps unknown fields": {
			object: known, changed: true, allowed: true,
			patches: `[{"op":"add","path":"/metadata/labels","value":{"namespace":"dev"}}]`,
		},
		"no change":           {object: known, allowed: true, patches: "null"},
		"a change that fails": {object: known, err: errors.New("no"), patches: "null"},
		"no object":           {patches: "null"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Webhook(clientgoscheme.Scheme, func() *corev1.Pod { return &corev1.Pod{} },
				func(_ context.Context, namespace string, pod *corev1.Pod) (bool, error) {
					pod.Labels = map[string]string{"namespace": namespace}
					return tc.changed, tc.err
				})
			got := w.Handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: "dev", Object: runtime.RawExtension{Raw: []byte(tc.object)},
			}})
			if got.Allowed != tc.allowed {
				t.Errorf("Handle() = %+v, want allowed %t", got, tc.allowed)
			}
			patches, err := json.Marshal(got.Patches)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.patches, string(patches)); diff != "" {
				t.Errorf("Handle() patches (-want +got):\n%s", diff)
			}
		})
	}
}
