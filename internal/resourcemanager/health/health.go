package health

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Checked reports whether objects of a kind have a state to check. Objects of other kinds are healthy if they exist.
func Checked(gk schema.GroupKind) bool {
	_, healthy := checks[gk]
	_, progress := rollouts[gk]
	return healthy || progress
}

// Check returns why an object is unhealthy, or "" if it is healthy or its kind is not checked.
func Check(u *unstructured.Unstructured) (string, error) {
	check, ok := checks[u.GroupVersionKind().GroupKind()]
	if !ok {
		return "", nil
	}
	return check(u)
}

var checks = map[schema.GroupKind]func(*unstructured.Unstructured) (string, error){
	{Group: "apps", Kind: "Deployment"}:                               typed(deployment),
	{Group: "apps", Kind: "StatefulSet"}:                              typed(statefulSet),
	{Group: "apps", Kind: "DaemonSet"}:                                typed(daemonSet),
	{Group: "apps", Kind: "ReplicaSet"}:                               typed(replicaSet),
	{Kind: "ReplicationController"}:                                   typed(replicationController),
	{Kind: "Pod"}:                                                     typed(pod),
	{Kind: "Service"}:                                                 typed(service),
	{Group: "batch", Kind: "Job"}:                                     typed(job),
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: typed(definition),
	{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}:      verticalPodAutoscaler,
	{Group: "monitoring.coreos.com", Kind: "Prometheus"}:              requireConditions("Available", "Reconciled"),
	{Group: "monitoring.coreos.com", Kind: "Alertmanager"}:            requireConditions("Available", "Reconciled"),
	{Group: "cert.gardener.cloud", Kind: "Certificate"}:               requireState("Ready"),
	{Group: "cert.gardener.cloud", Kind: "Issuer"}:                    requireState("Ready"),
}

// typed adapts a check of a Go type.
func typed[T any](check func(*T) string) func(*unstructured.Unstructured) (string, error) {
	return func(u *unstructured.Unstructured) (string, error) {
		var obj T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &obj); err != nil {
			return "", fmt.Errorf("decode %s: %w", u.GetKind(), err)
		}
		return check(&obj), nil
	}
}

func outdated(observed, generation int64) string {
	if observed < generation {
		return fmt.Sprintf("observed generation is %d, want %d", observed, generation)
	}
	return ""
}

func deployment(d *appsv1.Deployment) string {
	if reason := outdated(d.Status.ObservedGeneration, d.Generation); reason != "" {
		return reason
	}
	status := func(kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
		i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
		if i < 0 {
			return nil
		}
		return &d.Status.Conditions[i]
	}
	if c := status(appsv1.DeploymentAvailable); c == nil {
		return "condition Available is missing"
	} else if c.Status != corev1.ConditionTrue {
		return fmt.Sprintf("condition Available is %s: %s", c.Status, c.Message)
	}
	if c := status(appsv1.DeploymentProgressing); c != nil && c.Status == corev1.ConditionFalse {
		return fmt.Sprintf("condition Progressing is False: %s", c.Message)
	}
	if c := status(appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return fmt.Sprintf("condition ReplicaFailure is True: %s", c.Message)
	}
	return ""
}

func statefulSet(s *appsv1.StatefulSet) string {
	if reason := outdated(s.Status.ObservedGeneration, s.Generation); reason != "" {
		return reason
	}
	if want := ptr.Deref(s.Spec.Replicas, 1); s.Status.ReadyReplicas < want {
		return fmt.Sprintf("%d of %d replicas are ready", s.Status.ReadyReplicas, want)
	}
	return ""
}

func daemonSet(d *appsv1.DaemonSet) string {
	s := d.Status
	if reason := outdated(s.ObservedGeneration, d.Generation); reason != "" {
		return reason
	}
	if s.CurrentNumberScheduled < s.DesiredNumberScheduled {
		return fmt.Sprintf("%d of %d pods are scheduled", s.CurrentNumberScheduled, s.DesiredNumberScheduled)
	}
	if s.NumberMisscheduled > 0 {
		return fmt.Sprintf("%d pods are misscheduled", s.NumberMisscheduled)
	}
	allowed := 0
	if s.UpdatedNumberScheduled < s.DesiredNumberScheduled && d.Spec.UpdateStrategy.RollingUpdate != nil {
		// During a rollout the DaemonSet controller may take down maxUnavailable pods. It rounds up, too.
		unavailable := ptr.Deref(d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		if n, err := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(s.DesiredNumberScheduled), true); err == nil {
			allowed = n
		}
	}
	if int(s.NumberUnavailable) > allowed {
		return fmt.Sprintf("%d pods are unavailable, %d may be", s.NumberUnavailable, allowed)
	}
	return ""
}

func replicaSet(r *appsv1.ReplicaSet) string {
	if reason := outdated(r.Status.ObservedGeneration, r.Generation); reason != "" {
		return reason
	}
	if want := ptr.Deref(r.Spec.Replicas, 1); r.Status.ReadyReplicas < want {
		return fmt.Sprintf("%d of %d replicas are ready", r.Status.ReadyReplicas, want)
	}
	return ""
}

func replicationController(r *corev1.ReplicationController) string {
	if reason := outdated(r.Status.ObservedGeneration, r.Generation); reason != "" {
		return reason
	}
	if want := ptr.Deref(r.Spec.Replicas, 1); r.Status.ReadyReplicas < want {
		return fmt.Sprintf("%d of %d replicas are ready", r.Status.ReadyReplicas, want)
	}
	return ""
}

func pod(p *corev1.Pod) string {
	if p.Status.Phase != corev1.PodRunning && p.Status.Phase != corev1.PodSucceeded {
		return fmt.Sprintf("phase is %q", p.Status.Phase)
	}
	return ""
}

func service(s *corev1.Service) string {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return "the load balancer has no address"
	}
	return ""
}

func job(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("failed: %s", c.Message)
		}
	}
	return ""
}

func definition(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, kind := range []apiextensionsv1.CustomResourceDefinitionConditionType{
		apiextensionsv1.NamesAccepted, apiextensionsv1.Established,
	} {
		i := slices.IndexFunc(d.Status.Conditions,
			func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind })
		if i < 0 || d.Status.Conditions[i].Status != apiextensionsv1.ConditionTrue {
			return fmt.Sprintf("condition %s is not True", kind)
		}
	}
	return ""
}

// conditions reads status.conditions of any object.
func conditions(u *unstructured.Unstructured) map[string]metav1.Condition {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	out := map[string]metav1.Condition{}
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			text := func(key string) string { s, _ := m[key].(string); return s }
			out[text("type")] = metav1.Condition{Status: metav1.ConditionStatus(text("status")), Message: text("message")}
		}
	}
	return out
}

func verticalPodAutoscaler(u *unstructured.Unstructured) (string, error) {
	if c := conditions(u)["ConfigUnsupported"]; c.Status == metav1.ConditionTrue {
		return "condition ConfigUnsupported is True: " + c.Message, nil
	}
	return "", nil
}

// requireConditions demands that conditions are True, unless there are none because the object runs nothing.
func requireConditions(kinds ...string) func(*unstructured.Unstructured) (string, error) {
	return func(u *unstructured.Unstructured) (string, error) {
		found := conditions(u)
		if replicas, set, _ := unstructured.NestedInt64(u.Object, "spec", "replicas"); set && replicas == 0 &&
			len(found) == 0 {
			return "", nil
		}
		for _, kind := range kinds {
			if c := found[kind]; c.Status != metav1.ConditionTrue {
				return fmt.Sprintf("condition %s is not True: %s", kind, c.Message), nil
			}
		}
		return "", nil
	}
}

func requireState(want string) func(*unstructured.Unstructured) (string, error) {
	return func(u *unstructured.Unstructured) (string, error) {
		if state, _, _ := unstructured.NestedString(u.Object, "status", "state"); state != want {
			message, _, _ := unstructured.NestedString(u.Object, "status", "message")
			return fmt.Sprintf("state is %q: %s", state, message), nil
		}
		return "", nil
	}
}
