package care

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	// maxTimeoutSeconds is the longest timeout of a webhook whose failure is ignored: two of them in a row stay below the
	// timeout of a request.
	maxTimeoutSeconds = 15
	// maxLeaseTimeoutSeconds is the longest timeout for leases of system components, which are renewed every few seconds.
	maxLeaseTimeoutSeconds = 3
)

// row is a resource that system components write, and that a webhook must not block. Labels that are nil stand for
// "any", so no selector can exclude the row by them.
type row struct {
	groups, versions []string
	resources        []string // With subresource, such as pods/status.
	cluster          bool     // The objects are cluster-scoped.
	object           labels.Set
	namespaces       []labels.Set
}

var (
	kubeSystem = labels.Set{
		corev1beta1.LabelPurpose: metav1.NamespaceSystem, corev1beta1.LabelNoCleanup: "true",
		"kubernetes.io/metadata.name": metav1.NamespaceSystem,
	}
	defaultNamespace = labels.Set{"kubernetes.io/metadata.name": metav1.NamespaceDefault}
	inKubeSystem     = []labels.Set{kubeSystem}
	leaseVersions    = []string{"v1", "v1beta1"}
	rbacVersions     = []string{"v1", "v1alpha1", "v1beta1"}
	twoVersions      = []string{"v1", "v1beta1"}
)

// leases of system components: the row of the strict rule.
var systemLeases = row{
	groups: []string{"coordination.k8s.io"}, versions: leaseVersions, resources: []string{"leases"},
	namespaces: inKubeSystem,
}

// rows is the table of the specification.
var rows = []row{
	{groups: []string{""}, versions: []string{"v1"}, resources: []string{"pods", "pods/status"},
		object: labels.Set{corev1beta1.LabelNoCleanup: "true", "origin": "gardener"}, namespaces: inKubeSystem},
	{groups: []string{""}, versions: []string{"v1"}, resources: []string{"configmaps", "secrets", "serviceaccounts"},
		namespaces: inKubeSystem},
	{groups: []string{""}, versions: []string{"v1"}, resources: []string{"endpoints", "services", "services/status"},
		namespaces: []labels.Set{kubeSystem, defaultNamespace}},
	{groups: []string{""}, versions: []string{"v1"}, resources: []string{"nodes", "nodes/status"}, cluster: true},
	{groups: []string{""}, versions: []string{"v1"}, resources: []string{"namespaces", "namespaces/status"}, cluster: true,
		object: kubeSystem, namespaces: inKubeSystem},
	{groups: []string{"apps"}, versions: []string{"v1", "v1beta1", "v1beta2"}, resources: workloads,
		namespaces: inKubeSystem},
	{groups: []string{"extensions"}, versions: []string{"v1beta1"}, resources: workloads, namespaces: inKubeSystem},
	{groups: []string{"networking.k8s.io"}, versions: twoVersions, resources: []string{"networkpolicies"},
		namespaces: inKubeSystem},
	{groups: []string{"extensions"}, versions: []string{"v1beta1"}, resources: []string{"networkpolicies"},
		namespaces: inKubeSystem},
	{groups: []string{"coordination.k8s.io"}, versions: leaseVersions, resources: []string{"leases"}},
	{groups: []string{"rbac.authorization.k8s.io"}, versions: rbacVersions,
		resources: []string{"clusterroles", "clusterrolebindings"}, cluster: true},
	{groups: []string{"rbac.authorization.k8s.io"}, versions: rbacVersions, resources: []string{"roles", "rolebindings"},
		namespaces: inKubeSystem},
	{groups: []string{"apiextensions.k8s.io"}, versions: twoVersions,
		resources: []string{"customresourcedefinitions", "customresourcedefinitions/status"}, cluster: true},
	{groups: []string{"apiregistration.k8s.io"}, versions: twoVersions,
		resources: []string{"apiservices", "apiservices/status"}, cluster: true},
	{groups: []string{"certificates.k8s.io"}, versions: twoVersions, resources: []string{
		"certificatesigningrequests", "certificatesigningrequests/status", "certificatesigningrequests/approval",
	}, cluster: true},
	{groups: []string{"scheduling.k8s.io"}, versions: rbacVersions, resources: []string{"priorityclasses"}, cluster: true},
}

var workloads = []string{
	"controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "replicasets",
	"replicasets/status", "replicasets/scale",
}

// Webhook has the properties of a validating or mutating webhook that the rule needs.
type Webhook struct {
	Configuration, Name               string
	FailurePolicy                     *admissionregistrationv1.FailurePolicyType
	TimeoutSeconds                    *int32
	Rules                             []admissionregistrationv1.RuleWithOperations
	ObjectSelector, NamespaceSelector *metav1.LabelSelector
}

// own reports whether the configuration belongs to the system itself.
func own(l map[string]string) bool {
	return l["app"] == "gardener-resource-manager" || l["resources.gardener.cloud/managed-by"] == "gardener" ||
		l["origin"] == "gardener"
}

// Problematic reports whether the webhook can block the system when it does not answer.
func Problematic(w Webhook) bool {
	if hits(w, systemLeases) && (w.TimeoutSeconds == nil || *w.TimeoutSeconds > maxLeaseTimeoutSeconds) {
		return true
	}
	if ignoresFailure(w) && w.TimeoutSeconds != nil && *w.TimeoutSeconds <= maxTimeoutSeconds {
		return false
	}
	return slices.ContainsFunc(rows, func(r row) bool { return hits(w, r) })
}

func ignoresFailure(w Webhook) bool {
	return w.FailurePolicy != nil && *w.FailurePolicy == admissionregistrationv1.Ignore
}

// hits reports whether the webhook is called for writes to the row.
func hits(w Webhook, r row) bool {
	if !slices.ContainsFunc(w.Rules,
		func(rule admissionregistrationv1.RuleWithOperations) bool { return ruleHits(rule, r) }) {
		return false
	}
	if !selects(w.ObjectSelector, []labels.Set{r.object}) {
		return false
	}
	// The namespace selector does not apply to cluster-scoped objects, except to namespaces themselves.
	if r.cluster && len(r.namespaces) == 0 {
		return true
	}
	return selects(w.NamespaceSelector, r.namespaces)
}

func ruleHits(rule admissionregistrationv1.RuleWithOperations, r row) bool {
	writes := slices.ContainsFunc(rule.Operations, func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.Create || o == admissionregistrationv1.Update ||
			o == admissionregistrationv1.OperationAll
	})
	if !writes || !overlap(rule.APIGroups, r.groups) || !overlap(rule.APIVersions, r.versions) ||
		!scopeHits(rule.Scope, r.cluster) {
		return false
	}
	return slices.ContainsFunc(r.resources, func(resource string) bool {
		return slices.ContainsFunc(rule.Resources, func(pattern string) bool { return resourceHits(pattern, resource) })
	})
}

func overlap(patterns, values []string) bool {
	return slices.Contains(patterns, "*") ||
		slices.ContainsFunc(values, func(v string) bool { return slices.Contains(patterns, v) })
}

func scopeHits(scope *admissionregistrationv1.ScopeType, cluster bool) bool {
	if scope == nil || *scope == admissionregistrationv1.AllScopes {
		return true
	}
	return cluster == (*scope == admissionregistrationv1.ClusterScope)
}

// resourceHits reads a pattern of a rule: "*" is all main resources, "*/*" everything, "pods/*" pods with all parts.
func resourceHits(pattern, resource string) bool {
	main, sub, isSub := strings.Cut(resource, "/")
	switch patternMain, patternSub, hasSub := strings.Cut(pattern, "/"); {
	case pattern == "*":
		return !isSub
	case !hasSub:
		return !isSub && patternMain == main
	default:
		return (patternMain == "*" || patternMain == main) && (patternSub == "*" || isSub && patternSub == sub)
	}
}

// selects reports whether a selector matches one of the label sets. No selector, or a row without labels, always
// matches.
func selects(selector *metav1.LabelSelector, sets []labels.Set) bool {
	if selector == nil || (len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0) {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return true // The API server would have rejected it; assume that it selects the objects.
	}
	known := false
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		known = true
		if s.Matches(set) {
			return true
		}
	}
	return !known
}
