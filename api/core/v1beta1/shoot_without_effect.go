package v1beta1

import "fmt"

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
	)
	spec := &shoot.Spec
	kubernetes := &spec.Kubernetes
	warn(kubernetes.ClusterAutoscaler != nil, "spec.kubernetes.clusterAutoscaler", noAutoscaler)
	warn(kubernetes.VerticalPodAutoscaler != nil && kubernetes.VerticalPodAutoscaler.Enabled,
		"spec.kubernetes.verticalPodAutoscaler", noVPA)
	warn(kubernetes.ETCD != nil, "spec.kubernetes.etcd", noVPA)
	if server := kubernetes.KubeAPIServer; server != nil {
		const path = "spec.kubernetes.kubeAPIServer"
		warn(server.Autoscaling != nil, path+".autoscaling", noVPA)
		for i, plugin := range server.AdmissionPlugins {
			warn(plugin.KubeconfigSecretName != nil, fmt.Sprintf("%s.admissionPlugins[%d].kubeconfigSecretName", path, i),
				"plugins get no kubeconfigs")
		}
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
