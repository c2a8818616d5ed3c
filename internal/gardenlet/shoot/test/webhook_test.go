package test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/test/env"
)

// TestProviderWebhooksChangeControlPlanes: a webhook of a provider, registered as extensions do, adds a flag and a
// volume to the API server. It acts again in every operation, and its additions are removed with it.
func TestProviderWebhooksChangeControlPlanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	server := func() *appsv1.Deployment {
		d := &appsv1.Deployment{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}, d))
		return d
	}
	operation := func() {
		w.clock.Step(time.Hour)
		w.seedActs(s)
		s = w.run(s, succeeded)
	}
	before := server()
	if c := before.Spec.Template.Spec.Containers[0]; c.Name != "kube-apiserver" || len(c.Command) != 1 {
		t.Errorf("container %q has the command %q", c.Name, c.Command)
	}

	hook := startProviderWebhook(t)
	registration := hook.registration(s.Status.TechnicalID)
	w.Create(t, registration)
	w.awaitMutation(s, true)
	operation()
	changed := server()
	pod := changed.Spec.Template.Spec
	if !slices.Contains(pod.Containers[0].Args, providerFlag) || !slices.ContainsFunc(pod.Volumes, isProviders) {
		t.Errorf("args %q, volumes %+v", pod.Containers[0].Args, pod.Volumes)
	}
	calls := hook.calls.Load()
	operation()
	if hook.calls.Load() == calls {
		t.Error("the Deployment was not written again in the next operation")
	}
	if d := server(); d.Generation != changed.Generation {
		t.Errorf("another operation changed the Deployment: %s",
			cmp.Diff(changed.Spec.Template.Spec, d.Spec.Template.Spec))
	}

	w.must(w.Client.Delete(w.ctx, registration))
	w.awaitMutation(s, false)
	operation()
	if diff := cmp.Diff(before.Spec, server().Spec); diff != "" {
		t.Errorf("the Deployment without the webhook mismatch (-want +got):\n%s", diff)
	}
}

// The additions of the webhook.
const (
	providerFlag   = "--cloud-provider=external"
	providerVolume = "cloud-provider-config"
)

func isProviders(v corev1.Volume) bool { return v.Name == providerVolume }

// providerWebhook is the webhook of a provider's extension.
type providerWebhook struct {
	*httptest.Server
	calls atomic.Int32
}

func startProviderWebhook(t *testing.T) *providerWebhook {
	t.Helper()
	hook := &providerWebhook{}
	hook.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, d := &admissionv1.AdmissionReview{}, &appsv1.Deployment{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := json.Unmarshal(review.Request.Object.Raw, d); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if strings.HasPrefix(d.Name, kubeapiserver.Name) {
			hook.calls.Add(1)
			change(&d.Spec.Template.Spec)
			answer.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
			answer.Patch, _ = json.Marshal([]map[string]any{ // Plain values.
				{"op": "replace", "path": "/spec/template/spec", "value": d.Spec.Template.Spec},
			})
		}
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
	}))
	t.Cleanup(hook.Close)
	return hook
}

// change does what extensions do: they find the container by its name, and flags among its arguments.
func change(pod *corev1.PodSpec) {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == kubeapiserver.Name })
	if i < 0 {
		return
	}
	c := &pod.Containers[i]
	if !slices.Contains(c.Args, providerFlag) {
		c.Args = append(c.Args, providerFlag)
	}
	if !slices.ContainsFunc(pod.Volumes, isProviders) {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: providerVolume})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: providerVolume, MountPath: "/etc/cloud"})
	}
}

// registration selects by the labels of the contract. Only its namespace is specific to the test.
func (hook *providerWebhook) registration(namespace string) *admissionregistrationv1.MutatingWebhookConfiguration {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("provider-")},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "controlplane.local.extensions.gardener.cloud",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &hook.URL, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				corev1beta1.LabelShootProvider: "local", corev1.LabelMetadataName: namespace,
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				"app": "kubernetes", "role": "apiserver",
				"provider.extensions.gardener.cloud/mutated-by-controlplane-webhook": "true",
			}},
		}},
	}
}

// awaitMutation waits until the server of the seed calls the webhook, or no longer does.
func (w *world) awaitMutation(s *corev1beta1.Shoot, want bool) {
	w.t.Helper()
	probe := &appsv1.Deployment{}
	w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: kubeapiserver.Name}, probe))
	pod := &probe.Spec.Template.Spec
	pod.Volumes = slices.DeleteFunc(pod.Volumes, isProviders)
	for i := range pod.Containers {
		pod.Containers[i].VolumeMounts = slices.DeleteFunc(pod.Containers[i].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == providerVolume })
	}
	probe.ObjectMeta = metav1.ObjectMeta{
		Namespace: probe.Namespace, Name: kubeapiserver.Name + "-probe", Labels: probe.Labels,
	}
	w.must(wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			d := probe.DeepCopy()
			err := w.Client.Create(ctx, d, client.DryRunAll)
			return slices.ContainsFunc(d.Spec.Template.Spec.Volumes, isProviders) == want, err
		}))
}
