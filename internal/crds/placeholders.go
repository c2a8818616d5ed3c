package crds

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// LabelPlaceholder, "true", marks the definitions of [Placeholders].
const LabelPlaceholder = "hortus.dev/placeholder"

// placeholderText is what kubectl explain shows.
const placeholderText = "Kept as it is, without effect: no operator that acts on it is part of this cluster. " +
	"The definition exists for the charts of extensions; fields are not checked."

// approvalAutoscaler names the review of the vertical autoscaler's API. Kubernetes requires it of groups that end in
// k8s.io.
const approvalAutoscaler = "https://github.com/kubernetes/kubernetes/pull/63797"

// Scopes of kinds.
const (
	namespaced = apiextensionsv1.NamespaceScoped
	cluster    = apiextensionsv1.ClusterScoped
)

// group is an API group of a project whose operator a seed lacks.
type group struct {
	name string
	// versions are served; the first one is stored.
	versions   []string
	categories []string
	approval   string
	kinds      []kind
}

type kind struct {
	scope        apiextensionsv1.ResourceScope
	kind, plural string
	shortName    string
	// status is whether the kind has a status subresource.
	status bool
}

// monitoring is the category under which kubectl lists all kinds of the Prometheus operator.
var monitoring = []string{"prometheus-operator"}

// groups are those whose kinds charts and actuators of extensions create or change.
var groups = []group{
	{name: GroupVerticalAutoscaler, versions: []string{"v1", "v1beta2"}, approval: approvalAutoscaler, kinds: []kind{
		{namespaced, "VerticalPodAutoscaler", "verticalpodautoscalers", "vpa", true},
		{namespaced, "VerticalPodAutoscalerCheckpoint", "verticalpodautoscalercheckpoints", "vpacheckpoint", true},
	}},
	{name: "druid.gardener.cloud", versions: []string{"v1alpha1"}, kinds: []kind{
		{namespaced, "Etcd", "etcds", "", true},
		{namespaced, "EtcdCopyBackupsTask", "etcdcopybackupstasks", "", true},
	}},
	// Extensions watch it if they know it. Self-hosted Shoots are not supported.
	{name: "extensions.gardener.cloud", versions: []string{"v1alpha1"}, kinds: []kind{
		{namespaced, "SelfHostedShootExposure", "selfhostedshootexposures", "", true},
	}},
	{name: "fluentbit.fluent.io", versions: []string{"v1alpha2"}, kinds: []kind{
		{cluster, "ClusterFilter", "clusterfilters", "cfbf", false},
		{cluster, "ClusterFluentBitConfig", "clusterfluentbitconfigs", "cfbc", false},
		{cluster, "ClusterInput", "clusterinputs", "cfbi", false},
		{cluster, "ClusterMultilineParser", "clustermultilineparsers", "cfbmp", false},
		{cluster, "ClusterOutput", "clusteroutputs", "cfbo", false},
		{cluster, "ClusterParser", "clusterparsers", "cfbp", false},
		{namespaced, "Collector", "collectors", "", true},
		{namespaced, "Filter", "filters", "fbf", false},
		{namespaced, "FluentBit", "fluentbits", "", true},
		{namespaced, "FluentBitConfig", "fluentbitconfigs", "fbc", false},
		{namespaced, "MultilineParser", "multilineparsers", "fbmp", false},
		{namespaced, "Output", "outputs", "fbo", false},
		{namespaced, "Parser", "parsers", "fbp", false},
	}},
	{name: "monitoring.coreos.com", versions: []string{"v1"}, categories: monitoring, kinds: []kind{
		{namespaced, "Alertmanager", "alertmanagers", "am", true},
		{namespaced, "PodMonitor", "podmonitors", "pmon", true},
		{namespaced, "Probe", "probes", "prb", true},
		{namespaced, "Prometheus", "prometheuses", "prom", true},
		{namespaced, "PrometheusRule", "prometheusrules", "promrule", true},
		{namespaced, "ServiceMonitor", "servicemonitors", "smon", true},
		{namespaced, "ThanosRuler", "thanosrulers", "ruler", true},
	}},
	{name: "monitoring.coreos.com", versions: []string{"v1alpha1"}, categories: monitoring, kinds: []kind{
		{namespaced, "AlertmanagerConfig", "alertmanagerconfigs", "amcfg", false},
		{namespaced, "PrometheusAgent", "prometheusagents", "promagent", true},
		{namespaced, "ScrapeConfig", "scrapeconfigs", "scfg", true},
	}},
}

// Placeholders returns definitions of kinds of other projects, so that charts which contain such objects can be
// installed. Nothing acts on the objects, and any field is accepted. Who wants to act on them installs an operator with
// definitions of its own, which replace these.
func Placeholders() []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, g := range groups {
		for _, k := range g.kinds {
			out = append(out, placeholder(g, k))
		}
	}
	return out
}

// GroupVerticalAutoscaler has the kinds of the vertical pod autoscaler.
const GroupVerticalAutoscaler = "autoscaling.k8s.io"

// PlaceholdersOf returns those of [Placeholders] that are in a group.
func PlaceholdersOf(group string) []*apiextensionsv1.CustomResourceDefinition {
	return slices.DeleteFunc(Placeholders(), func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Group != group
	})
}

func placeholder(g group, k kind) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Kind: k.kind, ListKind: k.kind + "List", Plural: k.plural, Singular: strings.ToLower(k.kind),
		Categories: g.categories,
	}
	if k.shortName != "" {
		names.ShortNames = []string{k.shortName}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.plural + "." + g.name, Labels: map[string]string{LabelPlaceholder: "true"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: g.name, Names: names, Scope: k.scope},
	}
	if g.approval != "" {
		crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: g.approval}
	}
	for i, version := range g.versions {
		v := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: placeholderText, XPreserveUnknownFields: ptr.To(true),
			}},
		}
		if k.status {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
			}
		}
		crd.Spec.Versions = append(crd.Spec.Versions, v)
	}
	return crd
}
