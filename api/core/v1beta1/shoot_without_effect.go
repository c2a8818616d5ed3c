package v1beta1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// withoutEffect names the fields that are kept as they are written but change nothing, because no part of the system
// acts on them. Without a warning, users would assume otherwise.
func withoutEffect(shoot *Shoot) []string {
	var texts []string
	warn := func(given bool, path, why string) {
		if given {
			texts = append(texts, fmt.Sprintf("%s has no effect: %s", path, why))
		}
	}
	const (
		noAutoscaler   = "pools keep their minimum, there is no cluster autoscaler"
		noVPA          = "there is no vertical pod autoscaler"
		noPreservation = "machines that failed are replaced"
		onlyIPv4       = "control planes use IPv4 only"
	)
	spec := &shoot.Spec
	if m := spec.Maintenance; m != nil && m.AutoRotation != nil && m.AutoRotation.Credentials != nil {
		warn(rotates(m.AutoRotation.Credentials.Observability), "spec.maintenance.autoRotation.credentials.observability",
			noObservability)
	}
	if spec.DNS != nil {
		for i, provider := range spec.DNS.Providers {
			warn(provider.CredentialsRef != nil && provider.CredentialsRef.Kind == kindWorkloadIdentity,
				fmt.Sprintf("spec.dns.providers[%d].credentialsRef", i), "DNS providers need a Secret")
		}
	}
	if spec.Networking != nil {
		warn(slices.Contains(spec.Networking.IPFamilies, IPFamilyIPv6), "spec.networking.ipFamilies", onlyIPv4)
	}
	kubernetes := &spec.Kubernetes
	warn(kubernetes.ClusterAutoscaler != nil, "spec.kubernetes.clusterAutoscaler", noAutoscaler)
	warn(kubernetes.VerticalPodAutoscaler != nil && kubernetes.VerticalPodAutoscaler.Enabled,
		"spec.kubernetes.verticalPodAutoscaler", noVPA+"; its kinds are defined in the Shoot, and nothing acts on them")
	warn(kubernetes.ETCD != nil, "spec.kubernetes.etcd", noVPA)
	if server := kubernetes.KubeAPIServer; server != nil {
		const path = "spec.kubernetes.kubeAPIServer"
		warn(server.Autoscaling != nil, path+".autoscaling", noVPA)
		for i, plugin := range server.AdmissionPlugins {
			warn(plugin.KubeconfigSecretName != nil, fmt.Sprintf("%s.admissionPlugins[%d].kubeconfigSecretName", path, i),
				"plugins get no kubeconfigs")
		}
	}
	if manager := kubernetes.KubeControllerManager; manager != nil {
		// Shoots with two families get the default, and keep it when they have one family again.
		mask := manager.NodeCIDRMaskSizeIPv6
		warn(mask != nil && *mask != DefaultNodeCIDRMaskSizeIPv6,
			"spec.kubernetes.kubeControllerManager.nodeCIDRMaskSizeIPv6", onlyIPv4)
	}
	if addons := spec.Addons; addons != nil {
		warn(addons.KubernetesDashboard != nil && addons.KubernetesDashboard.Enabled, "spec.addons.kubernetesDashboard",
			"addons are not deployed")
		warn(addons.NginxIngress != nil && addons.NginxIngress.Enabled, "spec.addons.nginxIngress", "addons are not deployed")
	}
	warn(spec.Monitoring != nil && spec.Monitoring.Alerting != nil, "spec.monitoring.alerting", "no alerts are sent")
	warn(spec.ExposureClassName != nil, "spec.exposureClassName",
		"beyond scheduling; every API server is exposed in the same way")
	warn(spec.ControlPlane != nil && len(spec.ControlPlane.Zones) > 0, "spec.controlPlane.zones",
		"beyond the choice of the Seed, whose own scheduler chooses the zones")
	if components := spec.SystemComponents; components != nil {
		warn(components.CoreDNS != nil && components.CoreDNS.Autoscaling != nil &&
			components.CoreDNS.Autoscaling.Mode == CoreDNSAutoscalingModeClusterProportional,
			"spec.systemComponents.coreDNS.autoscaling.mode", "CoreDNS has a fixed number of replicas")
		warn(components.NodeLocalDNS != nil && components.NodeLocalDNS.Enabled, "spec.systemComponents.nodeLocalDNS",
			"there is no DNS cache on nodes; a change may replace them all the same")
	}
	for i := range spec.Provider.Workers {
		worker, path := &spec.Provider.Workers[i], fmt.Sprintf("spec.provider.workers[%d]", i)
		warn(worker.Maximum > worker.Minimum, path+".maximum", noAutoscaler)
		warn(worker.ClusterAutoscaler != nil, path+".clusterAutoscaler", noAutoscaler)
		warn(worker.Priority != nil, path+".priority", noAutoscaler)
		warn(len(worker.Sysctls) > 0, path+".sysctls", "kernel settings of machines are not changed")
		warn(worker.ControlPlane != nil, path+".controlPlane", "self-hosted Shoots are not supported")
		if settings := worker.MachineControllerManagerSettings; settings != nil {
			warn(settings.MachinePreserveTimeout != nil, path+".machineControllerManager.machinePreserveTimeout", noPreservation)
			warn(settings.AutoPreserveFailedMachineMax != nil, path+".machineControllerManager.autoPreserveFailedMachineMax",
				noPreservation)
		}
	}
	return texts
}

const noObservability = "there are no credentials for observability"

// annotationsWithoutEffect names the annotations of a Shoot that are new or changed, and change nothing.
func annotationsWithoutEffect(shoot, old *Shoot) []string {
	var before map[string]string
	if old != nil {
		before = old.Annotations
	}
	var texts []string
	for _, annotation := range []struct{ key, why string }{
		{AnnotationAllowDistantRegions, "there are no live migrations between regions"},
		{AnnotationAuthenticationIssuer, "the API server of the Shoot is its own issuer"},
		{AnnotationControlPlaneHAVPN, "the tunnel is not configurable"},
		{AnnotationControlPlaneScaleDownDisabled, "control planes are not scaled vertically"},
		{AnnotationShootDisableIstioTLSTermination, "the gateway never terminates TLS"},
		{AnnotationShootIgnoreAlerts, "there are no alerts"},
		{AnnotationLiveMigrate, "a move stops the control plane"},
	} {
		if _, given := newAnnotation(shoot, old, annotation.key); given {
			texts = append(texts, fmt.Sprintf("metadata.annotations[%s] has no effect: %s", annotation.key, annotation.why))
		}
	}
	texts = append(texts, cleanupWithoutEffect(shoot, old)...)
	texts = append(texts, tasksWithoutEffect(shoot.Annotations, before)...)
	return append(texts, operationsWithoutEffect(shoot, old)...)
}

// operationsWithoutEffect names the operations that are requested newly, and of which nothing comes.
func operationsWithoutEffect(shoot, old *Shoot) []string {
	var before map[string]string
	if old != nil {
		before = old.Annotations
	}
	ignored := onlyRetried(shoot, old)
	var texts []string
	for _, key := range []string{AnnotationOperation, AnnotationMaintenanceOperation} {
		earlier := Operations(before, key)
		for _, operation := range Operations(shoot.Annotations, key) {
			why := ""
			switch {
			case slices.Contains(earlier, operation):
			case ignored && key == AnnotationOperation && startsReconciliation(operation):
				why = fmt.Sprintf("starts nothing while the last operation is Failed, only %s does; request %s again after that",
					OperationRetry, operation)
			case operation == OperationRotateObservabilityCredentials:
				why = "rotates nothing: " + noObservability
			case operation == OperationRotateSSHKeypair && !shoot.SSHAccess():
				why = "rotates nothing: users have no SSH access to nodes of the Shoot, so there is no key pair"
			}
			if why != "" {
				texts = append(texts, fmt.Sprintf("metadata.annotations[%s]: %s %s", key, operation, why))
			}
		}
	}
	return texts
}

// onlyRetried reports whether the last operation is Failed, so that of all operations only a retry starts. A change of
// the spec that is rolled out starts another one, too; the status of the new object is what its client has sent.
func onlyRetried(shoot, old *Shoot) bool {
	if old == nil || old.Status.LastOperation == nil || old.Status.LastOperation.State != LastOperationStateFailed {
		return false
	}
	confined := shoot.Spec.Maintenance != nil && deref(shoot.Spec.Maintenance.ConfineSpecUpdateRollout)
	return shoot.HibernationEnabled() == old.HibernationEnabled() &&
		(confined || equality.Semantic.DeepEqual(shoot.Spec, old.Spec))
}

// startsReconciliation reports whether all that an operation does is done by a reconciliation. The others permit
// changes (force-in-place-update) or make them (maintain), whatever the last operation is.
func startsReconciliation(operation string) bool { return !slices.Contains(aloneOperations, operation) }

// tasksWithoutEffect names the tasks of a Shoot that are new and that no gardenlet carries out.
func tasksWithoutEffect(annotations, before map[string]string) []string {
	tasks, earlier, known := Tasks(annotations, AnnotationShootTasks), Tasks(before, AnnotationShootTasks), ShootTasks()
	var texts []string
	for _, task := range tasks {
		// Admission and maintenance request the deployment of all DNS records by three tasks, as the API demands.
		all := task == ShootTaskDeployDNSRecordIngress && slices.Contains(tasks, ShootTaskDeployDNSRecordInternal) &&
			slices.Contains(tasks, ShootTaskDeployDNSRecordExternal)
		if all || slices.Contains(known, task) || slices.Contains(earlier, task) {
			continue
		}
		texts = append(texts, fmt.Sprintf("metadata.annotations[%s]: %s has no effect: there is no such task (available: %s)",
			AnnotationShootTasks, task, strings.Join(slices.Sorted(slices.Values(known)), ", ")))
	}
	return texts
}
