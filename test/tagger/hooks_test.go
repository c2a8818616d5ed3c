package main

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// TestHooksChangeWhatTheyMustOnce: each webhook changes its objects, and leaves those alone that it has changed.
func TestHooksChangeWhatTheyMustOnce(t *testing.T) {
	config := &extensionsv1alpha1.OperatingSystemConfig{}
	config.Spec.Purpose = extensionsv1alpha1.OperatingSystemConfigPurposeReconcile
	provision := config.DeepCopy()
	provision.Spec.Purpose = extensionsv1alpha1.OperatingSystemConfigPurposeProvision
	server := &appsv1.Deployment{}
	server.Spec.Template.Spec.Containers = []corev1.Container{{Name: "other"}, {Name: "kube-apiserver"}}
	for name, tc := range map[string]struct {
		hook    admission.HandlerFunc
		before  any
		after   func() any // What the webhook makes of it.
		changes bool
	}{
		"node": {hook(tagNode), config, func() any { o := config.DeepCopy(); tagNode(o); return o }, true},
		"user data": {
			hook(tagNode), provision, func() any { o := provision.DeepCopy(); tagNode(o); return o }, false,
		},
		"API server": {hook(tagServer), server, func() any { o := server.DeepCopy(); tagServer(o); return o }, true},
		"pod": {hook(tagPod), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func() any {
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			tagPod(o)
			return o
		}, true},
	} {
		for object, changes := range map[any]bool{tc.before: tc.changes, tc.after(): false} {
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			answer := tc.hook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Object: runtime.RawExtension{Raw: raw},
			}})
			if !answer.Allowed || len(answer.Patches) > 0 != changes {
				t.Errorf("%s: the webhook answers %+v to %s", name, answer, raw)
			}
		}
	}
}
