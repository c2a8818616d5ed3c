// Package systemcomponents schedules pods of system components in a Shoot like those of the gardenlet: on nodes of
// pools that allow system components, whatever their taints.
package systemcomponents

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/resourcemanager/webhook/configuration"
)

// nodeSelector is the value of the label of nodes that allow components of the system.
const nodeSelector = "true"

// Place restricts a pod to nodes that allow system components and adds the tolerations, and reports whether that
// changed the pod. Pods of DaemonSets are not changed.
func Place(pod *corev1.Pod, tolerations []corev1.Toleration) bool {
	_, skipped := pod.Labels[configuration.LabelSkipSystemComponents]
	owner := metav1.GetControllerOf(pod)
	if skipped || owner != nil && owner.Kind == "DaemonSet" {
		return false
	}
	changed := false
	if _, ok := pod.Spec.NodeSelector[corev1beta1.LabelWorkerPoolSystemComponents]; !ok {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[corev1beta1.LabelWorkerPoolSystemComponents] = nodeSelector
		changed = true
	}
	for _, t := range tolerations {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(own corev1.Toleration) bool { return own.MatchToleration(&t) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
			changed = true
		}
	}
	return changed
}
