package managedresource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// mergeKind takes over what the server or other controllers set in objects of certain kinds.
func mergeKind(out, live *unstructured.Unstructured, scaled bool) {
	switch out.GroupVersionKind().Group + "/" + out.GetKind() {
	case "apps/Deployment", "extensions/Deployment", "apps/ReplicaSet", "/ReplicationController":
		mergeReplicas(out, live, scaled)
	case "apps/StatefulSet":
		mergeReplicas(out, live, scaled)
		// Claim templates cannot be changed.
		keepPresent(out, live, "spec", "volumeClaimTemplates")
	case "batch/Job":
		// The job controller chose them, and they cannot be changed.
		keepPresent(out, live, "spec", "selector")
		keepPresent(out, live, "spec", "template", "metadata", "labels")
	case "/Service":
		mergeService(out, live)
	case "/ServiceAccount":
		keepIfUnset(out, live, "secrets")
		keepIfUnset(out, live, "imagePullSecrets")
	case "/Secret":
		if out.GetLabels()[resourcesv1alpha1.LabelPurpose] == resourcesv1alpha1.PurposeTokenRequestor {
			keepIfUnset(out, live, "data", "token")
		}
	case "/PersistentVolumeClaim":
		mergeClaim(out, live)
	case "rbac.authorization.k8s.io/ClusterRole":
		if _, found, _ := unstructured.NestedMap(out.Object, "aggregationRule"); found {
			keepPresent(out, live, "rules")
		}
	case "apiextensions.k8s.io/CustomResourceDefinition":
		keepIfUnset(out, live, "spec", "conversion")
	case "admissionregistration.k8s.io/MutatingWebhookConfiguration",
		"admissionregistration.k8s.io/ValidatingWebhookConfiguration":
		keepCAs(out, live)
	}
}

// mergeReplicas keeps replicas that are not wished for or that someone else is in charge of.
func mergeReplicas(out, live *unstructured.Unstructured, scaled bool) {
	if scaled || isTrue(out.GetAnnotations(), resourcesv1alpha1.AnnotationPreserveReplicas) {
		keepPresent(out, live, "spec", "replicas")
		return
	}
	keepIfUnset(out, live, "spec", "replicas")
}

// keepCAs keeps the CAs of webhooks without one, since those who have the webhooks add them. Webhooks are found by
// name, which is unique in a configuration.
func keepCAs(out, live *unstructured.Unstructured) {
	cas := map[any]any{}
	for _, webhook := range webhooksOf(live) {
		if ca, found, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle"); found {
			cas[webhook["name"]] = ca
		}
	}
	for _, webhook := range webhooksOf(out) {
		config, ok := webhook["clientConfig"].(map[string]any)
		if ca := cas[webhook["name"]]; ok && ca != nil && config["caBundle"] == nil {
			config["caBundle"] = ca
		}
	}
}

// webhooksOf are the webhooks of a configuration, not copied.
func webhooksOf(configuration *unstructured.Unstructured) []map[string]any {
	list, _ := configuration.Object["webhooks"].([]any)
	webhooks := make([]map[string]any, 0, len(list))
	for _, each := range list {
		if webhook, ok := each.(map[string]any); ok {
			webhooks = append(webhooks, webhook)
		}
	}
	return webhooks
}

// keepPresent copies a field from live if it is there.
func keepPresent(out, live *unstructured.Unstructured, path ...string) {
	if value, found, err := unstructured.NestedFieldCopy(live.Object, path...); found && err == nil {
		_ = unstructured.SetNestedField(out.Object, value, path...)
	}
}

// mergeService keeps what was allocated to the Service.
func mergeService(out, live *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(out.Object, "spec", "type")
	if kind == string(corev1.ServiceTypeExternalName) {
		return
	}
	liveKind, _, _ := unstructured.NestedString(live.Object, "spec", "type")
	if liveKind != string(corev1.ServiceTypeExternalName) {
		for _, field := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
			keepIfUnset(out, live, "spec", field)
		}
	}
	if kind != string(corev1.ServiceTypeNodePort) && kind != string(corev1.ServiceTypeLoadBalancer) {
		return
	}
	if kind == string(corev1.ServiceTypeLoadBalancer) {
		for _, field := range []string{"loadBalancerIP", "healthCheckNodePort", "loadBalancerClass"} {
			keepIfUnset(out, live, "spec", field)
		}
	}
	wanted, _, _ := unstructured.NestedSlice(out.Object, "spec", "ports")
	running, _, _ := unstructured.NestedSlice(live.Object, "spec", "ports")
	for _, w := range wanted {
		port, ok := w.(map[string]any)
		if !ok || port["nodePort"] != nil {
			continue
		}
		for _, r := range running {
			other, ok := r.(map[string]any)
			if ok && number(other["port"]) == number(port["port"]) && protocol(other) == protocol(port) &&
				other["nodePort"] != nil {
				port["nodePort"] = other["nodePort"]
			}
		}
	}
	if len(wanted) > 0 {
		_ = unstructured.SetNestedSlice(out.Object, wanted, "spec", "ports")
	}
}

func protocol(port map[string]any) any {
	if p := port["protocol"]; p != nil {
		return p
	}
	return string(corev1.ProtocolTCP)
}

func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// mergeClaim keeps the whole spec of a bound claim but the requested size, the only part that may change.
func mergeClaim(out, live *unstructured.Unstructured) {
	size, wanted, _ := unstructured.NestedFieldCopy(out.Object, "spec", "resources")
	keepPresent(out, live, "spec")
	if wanted {
		_ = unstructured.SetNestedField(out.Object, size, "spec", "resources")
	}
}

// scaleTargets returns the objects whose replicas are set by an autoscaler among the objects.
func scaleTargets(objects []*object) map[identity]bool {
	out := map[identity]bool{}
	id := identities(nil)
	for _, o := range objects {
		if o.ref.Kind != "HorizontalPodAutoscaler" {
			continue
		}
		kind, _, _ := unstructured.NestedString(o.want.Object, "spec", "scaleTargetRef", "kind")
		name, _, _ := unstructured.NestedString(o.want.Object, "spec", "scaleTargetRef", "name")
		version, _, _ := unstructured.NestedString(o.want.Object, "spec", "scaleTargetRef", "apiVersion")
		ref := fromStatus(toStatusRef(version, kind, o.ref.Namespace, name))
		out[id(ref)] = true
	}
	return out
}

func toStatusRef(apiVersion, kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
		APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}}
}
