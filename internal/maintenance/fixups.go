package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// removedGates are the feature gates that Kubernetes dropped, with the minor (of major 1) that no longer knows them.
// Source: gates registered by k8s.io/kubernetes and its staging modules at v1.34.4, v1.35.4 and v1.36.3.
var removedGates = map[string]uint64{
	"AllowServiceLBStatusOnNonLB":              35,
	"ComponentSLIs":                            35,
	"CronJobsScheduledAnnotation":              35,
	"LoadBalancerIPMode":                       35,
	"PodIndexLabel":                            35,
	"ProbeHostPodSecurityStandards":            35,
	"SizeMemoryBackedVolumes":                  35,
	"StatefulSetAutoDeletePVC":                 35,
	"StrictCostEnforcementForVAP":              35,
	"StrictCostEnforcementForWebhooks":         35,
	"UserNamespacesPodSecurityStandards":       35,
	"CSIMigrationPortworx":                     36,
	"HonorPVReclaimPolicy":                     36,
	"InPlacePodVerticalScalingAllocatedStatus": 36,
	"InTreePluginPortworxUnregister":           36,
	"MemoryManager":                            36,
	"ServiceTrafficDistribution":               36,
	"StructuredAuthorizationConfiguration":     36,
	"TopologyAwareHints":                       36,
	"WatchFromStorageWithoutResourceVersion":   36,
}

// removedPlugins are the admission plugins that Kubernetes dropped, with the minor that no longer knows them.
var removedPlugins = map[string]uint64{
	"PodSecurityPolicy":     25,
	"SecurityContextDeny":   30,
	"PersistentVolumeLabel": 31,
}

// removedFields are the fields of a Shoot that are refused from a minor on. clear empties the field and reports
// whether it was set.
var removedFields = []struct {
	minor uint64
	path  string
	clear func(*corev1beta1.Kubernetes) bool
}{
	{33, "kubeControllerManager.podEvictionTimeout", func(k *corev1beta1.Kubernetes) bool {
		return k.KubeControllerManager != nil && unset(&k.KubeControllerManager.PodEvictionTimeout)
	}},
	{33, "clusterAutoscaler.maxEmptyBulkDelete", func(k *corev1beta1.Kubernetes) bool {
		return k.ClusterAutoscaler != nil && unset(&k.ClusterAutoscaler.MaxEmptyBulkDelete)
	}},
	{35, "kubeAPIServer.enableAnonymousAuthentication", func(k *corev1beta1.Kubernetes) bool {
		return k.KubeAPIServer != nil && unset(&k.KubeAPIServer.EnableAnonymousAuthentication)
	}},
	{35, "kubeScheduler.kubeMaxPDVols", func(k *corev1beta1.Kubernetes) bool {
		return k.KubeScheduler != nil && unset(&k.KubeScheduler.KubeMaxPDVols)
	}},
	{35, "kubeAPIServer.watchCacheSizes.default", func(k *corev1beta1.Kubernetes) bool {
		return k.KubeAPIServer != nil && k.KubeAPIServer.WatchCacheSizes != nil && unset(&k.KubeAPIServer.WatchCacheSizes.Default)
	}},
}

func unset[T any](field **T) bool {
	was := *field != nil
	*field = nil
	return was
}

// fixUp removes from a Shoot, in place, what its Kubernetes versions no longer know, and says what it removed. The
// versions are those after the maintenance; before is the control plane's version before it.
func fixUp(spec *corev1beta1.ShootSpec, before string) []string {
	target, err := semver.NewVersion(spec.Kubernetes.Version)
	if err != nil {
		return nil
	}
	var done []string
	k := &spec.Kubernetes
	if from, err := semver.NewVersion(before); err == nil && target.Minor() > from.Minor() {
		for _, f := range removedFields {
			if target.Minor() >= f.minor && f.clear(k) {
				done = append(done, fmt.Sprintf("Removed field spec.kubernetes.%s: not allowed from Kubernetes 1.%d on", f.path, f.minor))
			}
		}
	}
	gates := func(config *corev1beta1.KubernetesConfig, path string, version *semver.Version) {
		if names := drop(config.FeatureGates, version); len(names) > 0 {
			done = append(done, fmt.Sprintf("Removed feature gates from %s: %s (unknown to Kubernetes %s)",
				path, strings.Join(names, ", "), version.Original()))
		}
	}
	if k.KubeAPIServer != nil {
		gates(&k.KubeAPIServer.KubernetesConfig, "spec.kubernetes.kubeAPIServer", target)
	}
	if k.KubeControllerManager != nil {
		gates(&k.KubeControllerManager.KubernetesConfig, "spec.kubernetes.kubeControllerManager", target)
	}
	if k.KubeScheduler != nil {
		gates(&k.KubeScheduler.KubernetesConfig, "spec.kubernetes.kubeScheduler", target)
	}
	if k.KubeProxy != nil {
		gates(&k.KubeProxy.KubernetesConfig, "spec.kubernetes.kubeProxy", target)
	}
	if k.Kubelet != nil {
		gates(&k.Kubelet.KubernetesConfig, "spec.kubernetes.kubelet", target)
	}
	for i := range spec.Provider.Workers {
		w := &spec.Provider.Workers[i]
		if w.Kubernetes == nil || w.Kubernetes.Kubelet == nil {
			continue
		}
		version := target
		if w.Kubernetes.Version != nil {
			if own, err := semver.NewVersion(*w.Kubernetes.Version); err == nil {
				version = own
			}
		}
		gates(&w.Kubernetes.Kubelet.KubernetesConfig, fmt.Sprintf("spec.provider.workers[%d].kubernetes.kubelet", i), version)
	}
	if names := dropPlugins(k.KubeAPIServer, target); len(names) > 0 {
		done = append(done, fmt.Sprintf("Removed admission plugins from spec.kubernetes.kubeAPIServer: %s (unknown to Kubernetes %s)",
			strings.Join(names, ", "), target.Original()))
	}
	return done
}

// drop deletes the gates that the version no longer knows and returns their names, sorted.
func drop(gates map[string]bool, version *semver.Version) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if minor, removed := removedGates[name]; removed && version.Minor() >= minor {
			delete(gates, name)
			names = append(names, name)
		}
	}
	return names
}

func dropPlugins(config *corev1beta1.KubeAPIServerConfig, version *semver.Version) []string {
	if config == nil {
		return nil
	}
	var names []string
	config.AdmissionPlugins = slices.DeleteFunc(config.AdmissionPlugins, func(p corev1beta1.AdmissionPlugin) bool {
		minor, removed := removedPlugins[p.Name]
		if removed = removed && version.Minor() >= minor; removed {
			names = append(names, p.Name)
		}
		return removed
	})
	slices.Sort(names)
	return names
}

// MayNeedFixUp reports whether fixing up the Shoot could ever remove anything.
func MayNeedFixUp(spec *corev1beta1.ShootSpec) bool {
	probe := corev1beta1.ShootSpec{Kubernetes: *spec.Kubernetes.DeepCopy()}
	for _, w := range spec.Provider.Workers {
		probe.Provider.Workers = append(probe.Provider.Workers, corev1beta1.Worker{Kubernetes: w.Kubernetes.DeepCopy()})
	}
	probe.Kubernetes.Version = "1.999.0"
	for i := range probe.Provider.Workers {
		if k := probe.Provider.Workers[i].Kubernetes; k != nil {
			k.Version = nil
		}
	}
	return len(fixUp(&probe, "1.0.0")) > 0
}

// FixUp brings a Shoot's spec, in place, to the versions of the cluster and removes what they no longer know, as a
// maintenance does. It says what it removed. before is the control plane's version before.
func FixUp(spec *corev1beta1.ShootSpec, after *Cluster, before string) []string {
	apply(spec, *after)
	return fixUp(spec, before)
}
