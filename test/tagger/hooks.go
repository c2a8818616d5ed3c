package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Paths of the webhooks.
const (
	pathConfigs = "/webhooks/operatingsystemconfig"
	pathServer  = "/webhooks/kube-apiserver"
	pathPods    = "/webhooks/shoot"
)

// TagPath is the file that nodes get.
const TagPath = "/etc/tagger/tag"

// tagNode adds the file to what runs on nodes, unless it is there.
func tagNode(o *extensionsv1alpha1.OperatingSystemConfig) {
	if o.Spec.Purpose != extensionsv1alpha1.OperatingSystemConfigPurposeReconcile ||
		slices.ContainsFunc(o.Spec.Files, func(f extensionsv1alpha1.File) bool { return f.Path == TagPath }) {
		return
	}
	o.Spec.Files = append(o.Spec.Files, extensionsv1alpha1.File{
		Path: TagPath, Permissions: ptr.To(uint32(0o644)),
		Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: "tagged\n"}},
	})
}

// tagServer adds the variable to the container of the API server, unless it is there.
func tagServer(d *appsv1.Deployment) {
	containers := d.Spec.Template.Spec.Containers
	for i := range containers {
		if containers[i].Name == "kube-apiserver" &&
			!slices.ContainsFunc(containers[i].Env, func(e corev1.EnvVar) bool { return e.Name == "TAGGER" }) {
			containers[i].Env = append(containers[i].Env, corev1.EnvVar{Name: "TAGGER", Value: "tagged"})
		}
	}
}

// tagPod labels a pod.
func tagPod(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, "tagged", "true") }

// hook serves a change of objects.
func hook[T any](change func(*T)) admission.HandlerFunc {
	return func(_ context.Context, request admission.Request) admission.Response {
		object := new(T)
		if err := json.Unmarshal(request.Object.Raw, object); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		change(object)
		changed, err := json.Marshal(object)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(request.Object.Raw, changed)
	}
}

// registration is what differs between the webhooks.
type registration struct {
	name, group, version, resource string
	namespaces, objects            map[string]string
	client                         admissionregistrationv1.WebhookClientConfig
}

func (r registration) webhook() admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: r.name, ClientConfig: r.client, AdmissionReviewVersions: []string{"v1"},
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:    ptr.To(int32(10)),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: r.namespaces},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: r.objects},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{r.group}, APIVersions: []string{r.version}, Resources: []string{r.resource},
			},
		}},
	}
}

// mutated selects the objects of control planes that webhooks may change.
const mutated = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook"

// seedWebhooks registers the webhooks for control planes that use the extension. It is removed with the owner, the
// namespace of the extension.
func seedWebhooks(owner *corev1.Namespace, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	client := func(path string) admissionregistrationv1.WebhookClientConfig {
		service := &admissionregistrationv1.ServiceReference{
			Namespace: owner.Name, Name: serviceName, Path: ptr.To(path), Port: ptr.To(int32(443)),
		}
		return admissionregistrationv1.WebhookClientConfig{CABundle: bundle, Service: service}
	}
	used := map[string]string{"gardener.cloud/role": "shoot", "extensions.gardener.cloud/" + extensionType: "true"}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "gardener-extension-tagger",
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Namespace", Name: owner.Name, UID: owner.UID},
			},
		},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			registration{
				name: "osc.tagger.example.com", group: extensionsv1alpha1.GroupName, version: "v1alpha1",
				resource: "operatingsystemconfigs", namespaces: used, objects: map[string]string{mutated: "true"},
				client: client(pathConfigs),
			}.webhook(),
			registration{
				name: "kube-apiserver.tagger.example.com", group: "apps", version: "v1", resource: "deployments", namespaces: used,
				objects: map[string]string{"app": "kubernetes", "role": "apiserver", mutated: "true"}, client: client(pathServer),
			}.webhook(),
		},
	}
}

// shootWebhooks registers the webhook for a Shoot. Its API server reaches the Service in the seed by name.
func shootWebhooks(namespace string, bundle []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gardener-extension-tagger-shoot"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{registration{
			name: "pods.tagger.example.com", version: "v1", resource: "pods",
			namespaces: map[string]string{corev1.LabelMetadataName: metav1.NamespaceDefault},
			client: admissionregistrationv1.WebhookClientConfig{
				CABundle: bundle, URL: ptr.To("https://" + serviceName + "." + namespace + ":443" + pathPods),
			},
		}.webhook()},
	}
}
