package test

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/test/env"
)

// reportBound is how long the owner of a Shoot waits at most for the reason why it does not continue.
const reportBound = time.Minute

// TestExtensionThatNeverActsIsNamed: an extension that is installed, but never acts on its object, is in the status of
// the Shoot within a minute. Without the extension, the Shoot succeeds.
func TestExtensionThatNeverActsIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent := &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: env.Name("silent")}}
	silent.Spec.Resources = []corev1beta1.ControllerResource{{
		Kind: extensionsv1alpha1.ExtensionKind, Type: silent.Name, WorkerlessSupported: ptr.To(true),
	}}
	w.Create(t, silent)
	w.installed(silent)
	s := w.newShoot()
	w.require(s, corev1beta1.Extension{Type: silent.Name})
	var waited time.Duration // Since the object was created, with the pauses of the gardenlet.
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		requested := w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: silent.Name},
			&extensionsv1alpha1.Extension{}) == nil
		if requested {
			result, err := reconcile.AsReconciler(w.Client, w.r).Reconcile(w.ctx,
				reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
			w.must(err)
			w.clock.Step(result.RequeueAfter)
			waited += result.RequeueAfter
			s = w.latest(s)
		}
		return strings.Contains(s.Status.LastOperation.Description,
			"Extension "+silent.Name+" has not been observed by its extension yet") || waited > reportBound
	})
	if waited > reportBound {
		t.Fatalf("after %s the Shoot shows %+v", waited, w.latest(s).Status.LastOperation)
	}
	w.require(s)
	w.run(s, succeeded)
}

// require sets the extensions of the Shoot.
func (w *world) require(s *corev1beta1.Shoot, extensions ...corev1beta1.Extension) {
	w.t.Helper()
	now := w.latest(s)
	before := now.DeepCopy()
	now.Spec.Extensions = extensions
	w.must(w.Client.Patch(w.ctx, now, client.MergeFrom(before)))
}

// TestWebhookWithoutServerIsNamed: a webhook of an extension whose server is gone blocks only the Shoots whose objects
// it has to change, which name it at once. Afterwards they continue.
func TestWebhookWithoutServerIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, other := w.run(w.newShoot(), succeeded), w.run(w.newShoot(), succeeded)
	const name = "gone.example.com"
	registration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("gone-")},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To(int32(1)),
			SideEffects:   ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ClientConfig:  admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				corev1.LabelMetadataName: s.Status.TechnicalID,
			}},
		}},
	}
	w.Create(t, registration)
	w.awaitRefusal(s, true)
	w.clock.Step(time.Hour)
	s = w.run(s, func(s *corev1beta1.Shoot) bool { return len(s.Status.LastErrors) > 0 })
	if e := s.Status.LastErrors[0]; !strings.Contains(e.Description, name) {
		t.Errorf("the error does not name the webhook: %s", e.Description)
	}
	w.run(w.latest(other), func(o *corev1beta1.Shoot) bool {
		return succeeded(o) && o.Status.LastOperation.Type == corev1beta1.LastOperationTypeReconcile
	})
	w.must(w.Client.Delete(w.ctx, registration))
	w.awaitRefusal(s, false)
	w.run(s, succeeded)
}

// awaitRefusal waits until the server of the seed refuses Deployments in the control plane, or no longer does.
func (w *world) awaitRefusal(s *corev1beta1.Shoot, want bool) {
	w.t.Helper()
	probe := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}, probe))
	probe.ObjectMeta = metav1.ObjectMeta{Namespace: probe.Namespace, Name: kubeapiserver.Name + "-probe"}
	w.must(wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return (w.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) != nil) == want, nil
		}))
}
