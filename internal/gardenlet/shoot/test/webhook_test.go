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
	"hortus.dev/hortus/internal/component/etcd"
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

// TestProviderWebhooksChangeEtcd: a webhook of a provider chooses the class of the volumes of a new etcd, and changes
// its pods. Without the webhook the pods are as before; the volumes stay, as they cannot be changed.
func TestProviderWebhooksChangeEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot(), succeeded)
	etcdSet := func() *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{}
		w.must(w.Client.Get(w.ctx, client.ObjectKey{Namespace: s.Status.TechnicalID, Name: etcd.Name}, set))
		return set
	}
	operation := func() {
		w.clock.Step(time.Hour)
		w.seedActs(s)
		s = w.run(s, succeeded)
	}
	before := etcdSet()
	hook := startProviderWebhook(t)
	registration := hook.registration(s.Status.TechnicalID)
	w.Create(t, registration)
	w.awaitMutation(s, true)

	w.must(w.Client.Delete(w.ctx, before))
	operation()
	changed := etcdSet()
	if class := ptr.Deref(changed.Spec.VolumeClaimTemplates[0].Spec.StorageClassName, ""); class != providerClass {
		t.Errorf("the new etcd has volumes of class %q, want %q", class, providerClass)
	}
	if !slices.ContainsFunc(changed.Spec.Template.Spec.Volumes, isProviders) {
		t.Errorf("the pods of the new etcd have volumes %+v", changed.Spec.Template.Spec.Volumes)
	}
	operation()
	if diff := cmp.Diff(changed.Spec, etcdSet().Spec); diff != "" || etcdSet().Generation != changed.Generation {
		t.Errorf("another operation changed the StatefulSet: %s", diff)
	}

	w.must(w.Client.Delete(w.ctx, registration))
	w.awaitMutation(s, false)
	operation()
	want := before.Spec.DeepCopy()
	want.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(providerClass)
	if diff := cmp.Diff(*want, etcdSet().Spec); diff != "" {
		t.Errorf("the StatefulSet without the webhook mismatch (-want +got):\n%s", diff)
	}
}

// The additions of the webhook.
const (
	providerFlag   = "--cloud-provider=external"
	providerVolume = "cloud-provider-config"
	providerClass  = "fast"
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
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		spec, err := specOf(review.Request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if spec != nil {
			hook.calls.Add(1)
			answer.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
			// Plain values.
			answer.Patch, _ = json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": spec}})
		}
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
	}))
	t.Cleanup(hook.Close)
	return hook
}

// specOf returns the spec that the webhook wants for an API server or an etcd, nil for others. It chooses the storage
// class of an etcd when the StatefulSet is created, as later it cannot be changed.
func specOf(r *admissionv1.AdmissionRequest) (any, error) {
	switch {
	case r.Kind.Kind == "Deployment" && strings.HasPrefix(r.Name, kubeapiserver.Name):
		d := &appsv1.Deployment{}
		err := json.Unmarshal(r.Object.Raw, d)
		change(&d.Spec.Template.Spec)
		return d.Spec, err
	case r.Kind.Kind == "StatefulSet" && strings.HasPrefix(r.Name, etcd.Name):
		set := &appsv1.StatefulSet{}
		err := json.Unmarshal(r.Object.Raw, set)
		if r.Operation == admissionv1.Create && len(set.Spec.VolumeClaimTemplates) > 0 {
			set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(providerClass)
		}
		pod := &set.Spec.Template.Spec
		if !slices.ContainsFunc(pod.Volumes, isProviders) {
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: providerVolume})
		}
		return set.Spec, err
	}
	return nil, nil
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
					APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets"},
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				corev1beta1.LabelShootProvider: "local", corev1.LabelMetadataName: namespace,
			}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
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
