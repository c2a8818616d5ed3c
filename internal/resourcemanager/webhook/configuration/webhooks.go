package configuration

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Paths of the webhooks.
const (
	PathTokenMount     = "/webhooks/mount-projected-service-account-token"
	PathSeccomp        = "/webhooks/seccomp-profile"
	PathTopologySpread = "/webhooks/pod-topology-spread-constraints"
	// PathSystemComponents and PathServiceHost are registered with API servers of Shoots only.
	PathSystemComponents = "/webhooks/system-components-config"
	PathServiceHost      = "/webhooks/kubernetes-service-host"

	PathDeploymentAvailability  = "/webhooks/high-availability-config/deployment"
	PathStatefulSetAvailability = "/webhooks/high-availability-config/statefulset"
	PathAutoscalerAvailability  = "/webhooks/high-availability-config/horizontalpodautoscaler"
)

// Labels that exclude an object from a webhook, with any value.
const (
	LabelSkipTokenMount = "projected-token-mount.resources.gardener.cloud/skip"
	LabelSkipSeccomp    = "seccompprofile.resources.gardener.cloud/skip"

	LabelSkipTopologySpread   = "topology-spread-constraints.resources.gardener.cloud/skip"
	LabelSkipSystemComponents = "system-components-config.resources.gardener.cloud/skip"
)

const (
	// LabelServiceHost, with value ServiceHostDisabled, excludes a pod, or all pods of a namespace, from the webhook for
	// EnvServiceHost.
	LabelServiceHost    = "apiserver-proxy.networking.gardener.cloud/inject"
	ServiceHostDisabled = "disable"
	// EnvServiceHost is the variable by which clients in pods find the API server. The port, in another variable, is that
	// of the Service kubernetes, as the kubelet sets it: 443, like that of the gateway.
	EnvServiceHost = "KUBERNETES_SERVICE_HOST"
)

// TokenVolumePrefix is the prefix of the names of volumes with a token, including those that Kubernetes adds.
const TokenVolumePrefix = "kube-api-access"

// SeedWebhooks are the webhooks of a seed. They handle the namespaces of extensions and, because these run pods there,
// too, those of control planes.
func SeedWebhooks() []Webhook {
	namespaces := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1beta1.LabelRole, Operator: metav1.LabelSelectorOpIn,
		Values: []string{corev1beta1.RoleExtension, corev1beta1.RoleShoot},
	}}}
	return append(availability(),
		tokenMount(namespaces, nil), seccomp(namespaces, nil), topologySpread(namespaces, nil))
}

// ShootWebhooks are the webhooks of a Shoot. They handle objects of ManagedResources in kube-system, but no objects of
// users.
func ShootWebhooks() []Webhook {
	namespaces := metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}}
	managed := map[string]string{resourcesv1alpha1.LabelManagedBy: resourcesv1alpha1.ManagedByGardener}
	return []Webhook{
		tokenMount(namespaces, managed), seccomp(namespaces, managed), topologySpread(namespaces, managed),
		systemComponents(namespaces, managed), serviceHost(namespaces, managed),
	}
}

// tokenMount gives pods a token of their ServiceAccount.
func tokenMount(namespaces metav1.LabelSelector, labels map[string]string) Webhook {
	return Webhook{
		Name:       "projected-token-mount.resources.gardener.cloud",
		Path:       PathTokenMount,
		Rules:      newPods(),
		Namespaces: namespaces,
		Objects:    without(LabelSkipTokenMount, labels),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "has-service-account",
				Expression: `has(object.spec.serviceAccountName) && !(object.spec.serviceAccountName in ["", "default"])`},
			{Name: "leaves-it-to-the-service-account", Expression: `!has(object.spec.automountServiceAccountToken)`},
			{Name: "has-no-token", Expression: `!has(object.spec.volumes) || ` +
				`!object.spec.volumes.exists(v, v.name.startsWith("` + TokenVolumePrefix + `"))`},
		},
	}
}

// seccomp gives pods without a seccomp profile that of the container runtime.
func seccomp(namespaces metav1.LabelSelector, labels map[string]string) Webhook {
	return Webhook{
		Name:       "seccomp-profile.resources.gardener.cloud",
		Path:       PathSeccomp,
		Rules:      newPods(),
		Namespaces: namespaces,
		Objects:    without(LabelSkipSeccomp, labels),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "has-no-profile",
				Expression: `!has(object.spec.securityContext) || !has(object.spec.securityContext.seccompProfile)`},
			{Name: "is-not-privileged", Expression: `(object.spec.containers + ` +
				`(has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(c, ` +
				`!has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)`},
		},
	}
}

// topologySpread makes constraints of pods of Deployments count those of the same version only.
func topologySpread(namespaces metav1.LabelSelector, labels map[string]string) Webhook {
	const version = appsv1.DefaultDeploymentUniqueLabelKey
	objects := without(LabelSkipTopologySpread, labels)
	objects.MatchExpressions = append(objects.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: version, Operator: metav1.LabelSelectorOpExists,
	})
	return Webhook{
		Name:       "pod-topology-spread-constraints.resources.gardener.cloud",
		Path:       PathTopologySpread,
		Rules:      newPods(),
		Namespaces: namespaces,
		Objects:    objects,
		Conditions: []admissionregistrationv1.MatchCondition{{Name: "counts-other-versions",
			Expression: `has(object.spec.topologySpreadConstraints) && object.spec.topologySpreadConstraints.exists(c, ` +
				`has(c.labelSelector) && (!has(c.matchLabelKeys) || !("` + version + `" in c.matchLabelKeys)) && ` +
				`(!has(c.labelSelector.matchLabels) || !("` + version + `" in c.labelSelector.matchLabels)))`}},
	}
}

// systemComponents places pods where components of the system may run. Those that the gardenlet places itself are
// recognized by what all of these have.
func systemComponents(namespaces metav1.LabelSelector, labels map[string]string) Webhook {
	return Webhook{
		Name:       "system-components-config.resources.gardener.cloud",
		Path:       PathSystemComponents,
		Rules:      newPods(),
		Namespaces: namespaces,
		Objects:    without(LabelSkipSystemComponents, labels),
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "is-not-of-a-daemonset", Expression: `!has(object.metadata.ownerReferences) || ` +
				`!object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller && o.kind == "DaemonSet")`},
			{Name: "has-no-place", Expression: `!has(object.spec.nodeSelector) || ` +
				`!("` + corev1beta1.LabelWorkerPoolSystemComponents + `" in object.spec.nodeSelector) || ` +
				`!has(object.spec.tolerations) || ` +
				`!object.spec.tolerations.exists(t, has(t.key) && t.key == "CriticalAddonsOnly")`},
		},
	}
}

// serviceHost makes pods reach the API server by its own host name instead of the Service kubernetes, which saves the
// way through the proxy of their node. It is optional: the Service works as well.
//
// Only pods that use the name servers of their node are changed. They need these to resolve the name, the kubelet and
// the proxy depend on them, too, and the cluster does not need to be ready. Other pods would have to wait for the
// cluster's DNS before they reach the API server, and the first node of a Shoot would never be ready if one of its
// critical components did: the DNS servers are scheduled only when these are ready. Pods on the network of the node use
// its name servers by default. A container with variables from a ConfigMap or Secret may get its own value from there,
// which one in the pod would override.
func serviceHost(namespaces metav1.LabelSelector, labels map[string]string) Webhook {
	enabled := metav1.LabelSelectorRequirement{
		Key: LabelServiceHost, Operator: metav1.LabelSelectorOpNotIn, Values: []string{ServiceHostDisabled},
	}
	namespaces.MatchExpressions = append(slices.Clone(namespaces.MatchExpressions), enabled)
	return Webhook{
		Name:       "kubernetes-service-host.resources.gardener.cloud",
		Path:       PathServiceHost,
		Rules:      newPods(),
		Namespaces: namespaces,
		Objects: metav1.LabelSelector{
			MatchLabels: labels, MatchExpressions: []metav1.LabelSelectorRequirement{enabled},
		},
		Conditions: []admissionregistrationv1.MatchCondition{
			{Name: "uses-name-servers-of-node", Expression: `has(object.spec.dnsPolicy) && ` +
				`(object.spec.dnsPolicy == "Default" || object.spec.dnsPolicy == "ClusterFirst" && ` +
				`has(object.spec.hostNetwork) && object.spec.hostNetwork)`},
			{Name: "has-no-host", Expression: `(object.spec.containers + ` +
				`(has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(c, !has(c.envFrom) && ` +
				`(!has(c.env) || !c.env.exists(e, e.name == "` + EnvServiceHost + `")))`},
		},
		Optional: true,
	}
}

// availability gives labelled workloads the replicas and places that the annotations of their namespace request.
func availability() []Webhook {
	var out []Webhook
	for _, kind := range []struct {
		name, path, group, version, resource string
	}{
		{"deployment", PathDeploymentAvailability, "apps", "v1", "deployments"},
		{"statefulset", PathStatefulSetAvailability, "apps", "v1", "statefulsets"},
		{"horizontalpodautoscaler", PathAutoscalerAvailability, "autoscaling", "v2", "horizontalpodautoscalers"},
	} {
		objects := without(resourcesv1alpha1.LabelHighAvailabilitySkip, nil)
		objects.MatchExpressions = append(objects.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: resourcesv1alpha1.LabelHighAvailabilityType, Operator: metav1.LabelSelectorOpExists,
		})
		out = append(out, Webhook{
			Name: kind.name + ".high-availability-config.resources.gardener.cloud",
			Path: kind.path,
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{kind.group}, APIVersions: []string{kind.version}, Resources: []string{kind.resource},
					Scope: ptr.To(admissionregistrationv1.NamespacedScope),
				},
			}},
			Namespaces: metav1.LabelSelector{MatchLabels: map[string]string{
				resourcesv1alpha1.LabelHighAvailabilityConsider: "true",
			}},
			Objects: objects,
			// Deletions must not depend on the webhook.
			Conditions: []admissionregistrationv1.MatchCondition{
				{Name: "is-not-deleted", Expression: `!has(object.metadata.deletionTimestamp)`},
			},
		})
	}
	return out
}

func newPods() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			Scope: ptr.To(admissionregistrationv1.NamespacedScope),
		},
	}}
}

// without selects objects that have the labels and not the one by which they are left out.
func without(skip string, labels map[string]string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: labels, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: skip, Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
}
