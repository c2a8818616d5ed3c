// Package node has the controllers for the nodes of a Shoot: one removes the taint from nodes whose critical components
// run, the other sets how long each node agent waits, so that they do not change all nodes at once.
package node

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

const (
	// TaintNotReady keeps workload off a node until its critical components run. The kubelet registers the node with it.
	TaintNotReady = "node.gardener.cloud/critical-components-not-ready"
	// LabelCritical with the value "true" marks critical DaemonSets, their pod templates, and pods.
	LabelCritical = "node.gardener.cloud/critical-component"
	// annotationWaitForCSI with any suffix names a CSI driver that has to be registered on the node.
	annotationWaitForCSI = "node.gardener.cloud/wait-for-csi-node-"
)

// Reasons of events about a node.
const (
	reasonUnscheduled = "UnscheduledNodeCriticalDaemonSets"
	reasonUnready     = "UnreadyNodeCriticalPods"
	reasonDrivers     = "UnreadyRequiredCSIDrivers"
	reasonReady       = "NodeCriticalComponentsReady"
)

// verdict is why a node is not ready; both are empty for a ready one.
type verdict struct{ reason, message string }

// check is one rule of readiness.
type check func(observed) verdict

// observed is what the rules judge.
type observed struct {
	node       *corev1.Node
	daemonSets []appsv1.DaemonSet // The critical ones.
	pods       []corev1.Pod       // The critical ones on the node.
	drivers    []string           // Registered on the node.
}

// judge applies the rules in their order; the first that fails is the answer.
func judge(o observed) verdict {
	for _, c := range []check{unscheduled, unready, missingDrivers} {
		if v := c(o); v.reason != "" {
			return v
		}
	}
	return verdict{}
}

// unscheduled finds DaemonSets that belong on the node and have no pod there.
func unscheduled(o observed) verdict {
	var missing []string
	for i := range o.daemonSets {
		d := &o.daemonSets[i]
		if d.Labels[LabelCritical] != "true" || d.Spec.Template.Labels[LabelCritical] != "true" || !belongsOn(d, o.node) {
			continue
		}
		if !slices.ContainsFunc(o.pods, func(p corev1.Pod) bool {
			owner := metav1.GetControllerOf(&p)
			return owner != nil && owner.UID == d.UID
		}) {
			missing = append(missing, d.Namespace+"/"+d.Name)
		}
	}
	return describe(missing, reasonUnscheduled, "DaemonSets without a pod on the node: %s")
}

// unready finds pods that are not ready.
func unready(o observed) verdict {
	var names []string
	for _, p := range o.pods {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if !ready {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	return describe(names, reasonUnready, "pods that are not ready: %s")
}

// missingDrivers finds CSI drivers that pods name and that are not registered.
func missingDrivers(o observed) verdict {
	var missing []string
	for _, p := range o.pods {
		for key, driver := range p.Annotations {
			if strings.HasPrefix(key, annotationWaitForCSI) && !slices.Contains(o.drivers, driver) {
				missing = append(missing, driver)
			}
		}
	}
	return describe(missing, reasonDrivers, "CSI drivers that are not registered: %s")
}

func describe(names []string, reason, format string) verdict {
	if len(names) == 0 {
		return verdict{}
	}
	slices.Sort(names)
	return verdict{reason, fmt.Sprintf(format, strings.Join(slices.Compact(names), ", "))}
}

// tainted reports whether the node still has the taint.
func tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == TaintNotReady })
}

// daemonTolerations are those the DaemonSet controller gives every pod.
var daemonTolerations = []corev1.Toleration{
	{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	// Only pods of the host network get this one. They set up the network of a node that has none.
	{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
}

// belongsOn reports whether the DaemonSet controller puts a pod on the node.
func belongsOn(d *appsv1.DaemonSet, n *corev1.Node) bool {
	spec := &d.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false
	}
	if !labels.SelectorFromSet(spec.NodeSelector).Matches(labels.Set(n.Labels)) || !matchesAffinity(spec.Affinity, n) {
		return false
	}
	tolerations := slices.Concat(spec.Tolerations, daemonTolerations)
	for _, taint := range n.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return false
		}
	}
	return true
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	if cmp.Or(t.Operator, corev1.TolerationOpEqual) == corev1.TolerationOpExists {
		return true
	}
	return t.Key != "" && t.Value == taint.Value
}

// matchesAffinity evaluates the required node affinity: terms are alternatives, requirements of a term all hold.
func matchesAffinity(a *corev1.Affinity, n *corev1.Node) bool {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(t corev1.NodeSelectorTerm) bool {
			if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
				return false // An empty term matches nothing.
			}
			return matchesAll(t.MatchExpressions, labels.Set(n.Labels)) &&
				matchesAll(t.MatchFields, labels.Set{metav1.ObjectNameField: n.Name})
		})
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
	corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func matchesAll(requirements []corev1.NodeSelectorRequirement, set labels.Set) bool {
	for _, r := range requirements {
		requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil || !requirement.Matches(set) {
			return false // The API server rejects invalid requirements, so none is in use.
		}
	}
	return true
}
