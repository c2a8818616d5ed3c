package health

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// Progress returns what a rollout of the object still waits for, or "" if it is complete or the kind has no rollouts.
// Terminating pods of earlier versions are visible only in a list of pods; see OldPods.
func Progress(u *unstructured.Unstructured) (string, error) {
	rollout, ok := rollouts[u.GroupVersionKind().GroupKind()]
	if !ok {
		return "", nil
	}
	return rollout(u)
}

var rollouts = map[schema.GroupKind]func(*unstructured.Unstructured) (string, error){
	{Group: "apps", Kind: "Deployment"}:                    typed(deploymentRollout),
	{Group: "apps", Kind: "StatefulSet"}:                   typed(statefulSetRollout),
	{Group: "apps", Kind: "DaemonSet"}:                     typed(daemonSetRollout),
	{Group: "monitoring.coreos.com", Kind: "Prometheus"}:   monitoringRollout,
	{Group: "monitoring.coreos.com", Kind: "Alertmanager"}: monitoringRollout,
}

func deploymentRollout(d *appsv1.Deployment) string {
	if reason := outdated(d.Status.ObservedGeneration, d.Generation); reason != "" {
		return reason
	}
	for _, c := range d.Status.Conditions {
		if c.Type != appsv1.DeploymentProgressing {
			continue
		}
		if c.Status != corev1.ConditionTrue || c.Reason != "NewReplicaSetAvailable" {
			return fmt.Sprintf("condition Progressing is %s, reason %s", c.Status, c.Reason)
		}
		return ""
	}
	if d.Spec.ProgressDeadlineSeconds == nil || ptr.Deref(d.Spec.Replicas, 1) == 0 {
		return "" // Without a deadline or anything to run the controller sets no such condition.
	}
	return "condition Progressing is missing"
}

func statefulSetRollout(s *appsv1.StatefulSet) string {
	if reason := outdated(s.Status.ObservedGeneration, s.Generation); reason != "" {
		return reason
	}
	want := ptr.Deref(s.Spec.Replicas, 1)
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		want -= min(want, ptr.Deref(r.Partition, 0))
	}
	if s.Status.UpdatedReplicas < want {
		return fmt.Sprintf("%d of %d replicas are updated", s.Status.UpdatedReplicas, want)
	}
	return ""
}

func daemonSetRollout(d *appsv1.DaemonSet) string {
	if reason := outdated(d.Status.ObservedGeneration, d.Generation); reason != "" {
		return reason
	}
	if d.Status.UpdatedNumberScheduled < d.Status.DesiredNumberScheduled {
		return fmt.Sprintf("%d of %d pods are updated", d.Status.UpdatedNumberScheduled, d.Status.DesiredNumberScheduled)
	}
	return ""
}

func monitoringRollout(u *unstructured.Unstructured) (string, error) {
	replicas, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !set {
		replicas = 1
	}
	if updated, _, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas"); updated < replicas {
		return fmt.Sprintf("%d of %d replicas are updated", updated, replicas), nil
	}
	return "", nil
}

// OldPods returns a message if a Deployment that is rolled out still has pods of an earlier version, or "". The
// argument pods is the number of pods that match its selector and have not terminated.
func OldPods(u *unstructured.Unstructured, pods int) string {
	replicas, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !set {
		replicas = 1
	}
	if int64(pods) > replicas {
		return fmt.Sprintf("%d pods exist, want %d", pods, replicas)
	}
	return ""
}
