package care

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/internal/component/managedresource"
	"hortus.dev/hortus/internal/gardenlet/shoot/steps"
)

// Reasons of conditions.
const (
	reasonNotChecked = "ConditionNotChecked"
)

// conditionTypes are the conditions of a Shoot, in the order of the API.
func conditionTypes(o *Observed) []corev1beta1.ConditionType {
	types := []corev1beta1.ConditionType{corev1beta1.ShootAPIServerAvailable, corev1beta1.ShootControlPlaneHealthy}
	if !o.workerless() {
		types = append(types, corev1beta1.ShootEveryNodeReady)
	}
	return append(types, corev1beta1.ShootSystemComponentsHealthy)
}

// Conditions checks the observed state and returns the conditions that follow the Shoot's present ones.
func Conditions(o *Observed, s Settings) []corev1beta1.Condition {
	op := Operation{Last: o.Shoot.Status.LastOperation, HasErrors: len(o.Shoot.Status.LastErrors) > 0}
	var out []corev1beta1.Condition
	for _, kind := range conditionTypes(o) {
		var threshold *time.Duration
		if t, ok := s.Thresholds[kind]; ok {
			threshold = &t
		}
		old := corev1beta1.FindCondition(o.Shoot.Status.Conditions, kind)
		out = append(out, next(kind, old, check(o, s, kind), threshold, op, o.Now))
	}
	return out
}

// check is the finding for one condition.
func check(o *Observed, s Settings, kind corev1beta1.ConditionType) Finding {
	if o.hibernated() {
		return good(reasonNotChecked, "Shoot cluster has been hibernated.")
	}
	switch kind {
	case corev1beta1.ShootAPIServerAvailable:
		return apiServer(o)
	case corev1beta1.ShootControlPlaneHealthy:
		return controlPlane(o, s)
	}
	if !o.answers() {
		return unknown(reasonNotChecked, "The API server of the Shoot does not answer, so nothing behind it can be checked.")
	}
	if kind == corev1beta1.ShootEveryNodeReady {
		return nodes(o, s)
	}
	return systemComponents(o, s)
}

func apiServer(o *Observed) Finding {
	d := o.deployment("kube-apiserver")
	switch {
	case d == nil || ptr.Deref(d.Spec.Replicas, 1) == 0:
		return bad("APIServerDown", "The API server is not running at the moment.")
	case o.HealthError != nil:
		return bad("HealthzRequestFailed",
			fmt.Sprintf("Request to the health endpoint of the API server failed: %s.", printable(o.HealthError.Error())))
	case o.HealthStatus != 200:
		return bad("HealthzRequestError",
			fmt.Sprintf("The API server answers its health check with status %d.", o.HealthStatus))
	}
	if f, soon := expiry(o); soon {
		return f
	}
	return good("HealthzRequestSucceeded", "API server /healthz endpoint responded with success status code.")
}

// requiredDeployments are the names of the Deployments of a control plane. The first unhealthy one is reported.
func requiredDeployments(o *Observed) []string {
	var names []string
	for _, d := range steps.Deployments {
		if !d.Workers || !o.workerless() {
			names = append(names, d.Name)
		}
	}
	return names
}

func controlPlane(o *Observed, s Settings) Finding {
	if f := stoppedEtcd(o); f != nil { // All other problems follow from it.
		return *f
	}
	for _, name := range requiredDeployments(o) {
		d := o.deployment(name)
		if d == nil {
			return bad("DeploymentMissing", fmt.Sprintf("Missing required deployment: %s.", name))
		}
		if problem := deploymentProblem(d); problem != "" {
			return bad("DeploymentUnhealthy", fmt.Sprintf("Deployment %q is unhealthy: %s.", name, problem))
		}
	}
	if o.Etcd == nil {
		return bad("EtcdMissing", "Missing required etcd: etcd-main.")
	}
	if want := ptr.Deref(o.Etcd.Spec.Replicas, 1); o.Etcd.Status.ReadyReplicas < want || want == 0 {
		return bad("EtcdUnhealthy", fmt.Sprintf("etcd-main has %d of %d members ready.", o.Etcd.Status.ReadyReplicas,
			max(want, 1)))
	}
	lacking, unclear := backups(o)
	if lacking != nil {
		return *lacking
	}
	if f, ok := reports(o, s, corev1beta1.ShootControlPlaneHealthy); ok {
		return f
	}
	if f, ok := resources(o, corev1beta1.ShootControlPlaneHealthy,
		func(mr *resourcesv1alpha1.ManagedResource) bool { return ptr.Deref(mr.Spec.Class, "") != "" }); ok {
		return f
	}
	if unclear != nil {
		return *unclear
	}
	return good("ControlPlaneRunning", "All control plane components are healthy.")
}

// stoppedEtcd is the reason of the process why etcd does not run; nil if it runs, or if its state is unknown.
func stoppedEtcd(o *Observed) *Finding {
	if o.Etcd == nil || o.Backups == nil || o.Backups.Error != nil {
		return nil
	}
	ready, wanted := o.Etcd.Status.ReadyReplicas, ptr.Deref(o.Etcd.Spec.Replicas, 1)
	etcd := o.Backups.Status.Etcd
	if ready >= wanted || etcd.Message == "" {
		return nil
	}
	f := bad("EtcdUnhealthy", fmt.Sprintf("etcd-main has %d of %d members ready. One is %s: %s.", ready, wanted,
		etcd.State, printable(etcd.Message)))
	return &f
}

func systemComponents(o *Observed, s Settings) Finding {
	if f, ok := resources(o, corev1beta1.ShootSystemComponentsHealthy,
		func(mr *resourcesv1alpha1.ManagedResource) bool { return ptr.Deref(mr.Spec.Class, "") == "" }); ok {
		return f
	}
	if f, ok := reports(o, s, corev1beta1.ShootSystemComponentsHealthy); ok {
		return f
	}
	if !o.workerless() && len(o.Nodes) > 0 {
		if f, ok := tooMuch(o, TunnelPods); ok {
			return f
		}
		switch {
		case !o.TunnelPod:
			return bad("NoTunnelDeployed", "No tunnel pod is running in the Shoot, so its nodes cannot be reached.")
		case o.TunnelError != nil:
			return bad("TunnelConnectionBroken",
				fmt.Sprintf("The tunnel to the Shoot's nodes does not work: %s.", printable(o.TunnelError.Error())))
		}
	}
	return good("SystemComponentsRunning", "All system components are healthy.")
}

// deploymentProblem returns the problem of a Deployment, without a full stop, or "".
func deploymentProblem(d *appsv1.Deployment) string {
	if d.Status.ObservedGeneration < d.Generation {
		return "its newest version has not been observed yet"
	}
	problem := ""
	for _, c := range d.Status.Conditions {
		switch {
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == "True":
			return strings.TrimSuffix(c.Message, ".") // The reason why replicas are not available.
		case c.Type == appsv1.DeploymentAvailable && c.Status != "True":
			problem = strings.TrimSuffix(c.Message, ".")
		}
	}
	if problem == "" && (ptr.Deref(d.Spec.Replicas, 1) == 0 || d.Status.AvailableReplicas == 0) {
		problem = "no replica is available"
	}
	return problem
}

// resources reports the first ManagedResource of a condition that is not good. A label assigns it to a condition;
// without one its class does.
func resources(
	o *Observed, kind corev1beta1.ConditionType, byClass func(*resourcesv1alpha1.ManagedResource) bool,
) (Finding, bool) {
	for i := range o.Resources {
		mr := &o.Resources[i]
		if label, ok := mr.Labels[corev1beta1.LabelCareConditionType]; ok && label != string(kind) || !ok && !byClass(mr) {
			continue
		}
		if ready, why := managedresource.Ready(mr, ""); !ready {
			return bad(resourceReason(mr), why+"."), true
		}
	}
	return Finding{}, false
}

// resourceReason is that of the condition which is not as it should be.
func resourceReason(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Status.ObservedGeneration != mr.Generation {
		return "OutdatedStatus"
	}
	// The order is fixed: a changed reason counts as a new problem, to which the threshold applies again.
	for _, kind := range []corev1beta1.ConditionType{
		resourcesv1alpha1.ResourcesApplied, resourcesv1alpha1.ResourcesHealthy,
	} {
		c := corev1beta1.FindCondition(mr.Status.Conditions, kind)
		if c == nil {
			return "MissingManagedResourceCondition"
		}
		if c.Status != corev1beta1.ConditionTrue && c.Reason != "" {
			return c.Reason
		}
	}
	if c := corev1beta1.FindCondition(mr.Status.Conditions, resourcesv1alpha1.ResourcesProgressing); c != nil &&
		c.Status != corev1beta1.ConditionFalse && c.Reason != "" {
		return c.Reason
	}
	return "MissingManagedResourceCondition"
}

// reports returns what extensions say about a condition, if it is not good.
func reports(o *Observed, s Settings, kind corev1beta1.ConditionType) (Finding, bool) {
	for _, r := range o.Reports {
		if r.Condition.Type != kind {
			continue
		}
		if s.StaleAfter > 0 && !r.Heartbeat.IsZero() && o.Now.Sub(r.Heartbeat) > s.StaleAfter {
			return unknown(r.Kind+"OutdatedHealthCheckReport",
				fmt.Sprintf("%s extension (%s/%s) has sent no heartbeat for more than %s.", r.Kind, r.Kind, r.Name,
					s.StaleAfter)), true
		}
		switch r.Condition.Status {
		case corev1beta1.ConditionTrue:
		case corev1beta1.ConditionProgressing:
			return Finding{
				Status: corev1beta1.ConditionProgressing, Reason: r.Condition.Reason, Message: r.Condition.Message,
				Codes: r.Condition.Codes,
			}, true
		default:
			return bad(r.Kind+"UnhealthyReport", fmt.Sprintf("%s %q reports failing health check: %s",
				r.Kind, r.Name, r.Condition.Message), r.Condition.Codes...), true
		}
	}
	return Finding{}, false
}
