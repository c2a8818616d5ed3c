package highavailability

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// tolerationSeconds is how long pods stay on a node that is not ready or unreachable; Kubernetes waits five minutes.
const tolerationSeconds = 60

// maxSpreadDomains bounds the nodes that replicas have to be spread over, if they have to.
const maxSpreadDomains = 3

// revision is the label of the pods of one version of a Deployment: those that are about to be replaced say nothing
// about where the new ones belong. Pods of a StatefulSet do not have it, which Kubernetes takes for no condition.
var revision = []string{appsv1.DefaultDeploymentUniqueLabelKey}

// Workload is the part that Deployments and StatefulSets have in common.
type Workload struct {
	Meta     *metav1.ObjectMeta
	Replicas **int32
	Selector *metav1.LabelSelector
	Template *corev1.PodTemplateSpec
}

// Apply changes replicas and scheduling of a workload. The argument autoscaler is the one that scales it, or nil.
func Apply(w Workload, s Settings, autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	wanted, ok := wantedReplicas(w.Meta, s)
	if !ok {
		return
	}
	current := ptr.Deref(*w.Replicas, 1)
	// Workloads with 0 replicas keep them, and an autoscaler may have chosen more than the minimum.
	if current > 0 && (autoscaler == nil || current < wanted) {
		current = wanted
		*w.Replicas = &current
	}
	most := current
	if autoscaler != nil {
		most = max(most, autoscaler.Spec.MaxReplicas)
	}
	spec := &w.Template.Spec
	if s.Pinned {
		pin(spec, s.Zones)
	}
	enforced := w.Meta.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityHostSpread] == "true"
	spread(spec, w.Selector, most, s.Zones, enforced || s.toleratesFailures())
	tolerate(spec, corev1.TaintNodeNotReady)
	tolerate(spec, corev1.TaintNodeUnreachable)
}

// ApplyToAutoscaler changes the bounds of an autoscaler.
func ApplyToAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler, s Settings) {
	wanted, ok := wantedReplicas(&a.ObjectMeta, s)
	if !ok {
		return
	}
	if ptr.Deref(a.Spec.MinReplicas, 1) < wanted {
		a.Spec.MinReplicas = &wanted
	}
	a.Spec.MaxReplicas = max(a.Spec.MaxReplicas, ptr.Deref(a.Spec.MinReplicas, 1))
}

// types are those of workloads that are changed.
var types = []string{resourcesv1alpha1.HighAvailabilityController, resourcesv1alpha1.HighAvailabilityServer}

// wantedReplicas returns the number of replicas of what is labelled for it.
func wantedReplicas(meta *metav1.ObjectMeta, s Settings) (int32, bool) {
	_, skipped := meta.Labels[resourcesv1alpha1.LabelHighAvailabilitySkip]
	kind := meta.Labels[resourcesv1alpha1.LabelHighAvailabilityType]
	if skipped || !slices.Contains(types, kind) {
		return 0, false
	}
	own := meta.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityReplicas]
	if n, err := strconv.ParseInt(own, 10, 32); err == nil && n >= 0 {
		return int32(n), true
	}
	return s.replicas(kind), true
}

// pin keeps pods in the zones, whatever else their terms require. Terms are alternatives, so each gets the requirement.
func pin(spec *corev1.PodSpec, zones []string) {
	requirement := corev1.NodeSelectorRequirement{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones,
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	selector := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *selector == nil {
		*selector = &corev1.NodeSelector{}
	}
	if len((*selector).NodeSelectorTerms) == 0 {
		(*selector).NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range (*selector).NodeSelectorTerms {
		term := &(*selector).NodeSelectorTerms[i]
		term.MatchExpressions = append(slices.DeleteFunc(term.MatchExpressions,
			func(r corev1.NodeSelectorRequirement) bool { return r.Key == corev1.LabelTopologyZone }), requirement)
	}
}

// spread distributes the replicas, of which there may be at most the given number, over nodes, if possible or at all
// costs, and over zones, if there are several. Constraints of the chart for the same topology are replaced.
func spread(spec *corev1.PodSpec, selector *metav1.LabelSelector, most int32, zones []string, enforced bool) {
	if most < 2 {
		return
	}
	host := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: selector.DeepCopy(), MatchLabelKeys: revision,
	}
	if enforced {
		host.WhenUnsatisfiable = corev1.DoNotSchedule
		host.MinDomains = ptr.To(min(most, maxSpreadDomains))
	}
	constraints := []corev1.TopologySpreadConstraint{host}
	if n := int32(min(len(zones), int(most))); n > 1 {
		zone := corev1.TopologySpreadConstraint{
			MaxSkew: 1, MinDomains: &n, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: selector.DeepCopy(), MatchLabelKeys: revision,
		}
		if int(most) >= 2*len(zones) {
			zone.MaxSkew = 2 // Some zones have two replicas; a zone without capacity must not stop a rolling update.
		}
		constraints = append(constraints, zone)
	}
	kept := slices.DeleteFunc(spec.TopologySpreadConstraints, func(old corev1.TopologySpreadConstraint) bool {
		return slices.ContainsFunc(constraints,
			func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == old.TopologyKey })
	})
	spec.TopologySpreadConstraints = append(kept, constraints...)
}

// tolerate bounds how long pods stay on a node with the taint, unless they say so themselves.
func tolerate(spec *corev1.PodSpec, taint string) {
	if slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == taint || t.Key == "" && t.Operator == corev1.TolerationOpExists) &&
			(t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
	}) {
		return
	}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: ptr.To(int64(tolerationSeconds)),
	})
}
