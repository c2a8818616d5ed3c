package maintenance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// removedPlugins are the admission plugins that Kubernetes dropped before the minors that the API knows in detail, with
// the minor that no longer has them.
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
		return k.KubeAPIServer != nil && k.KubeAPIServer.WatchCacheSizes != nil &&
			unset(&k.KubeAPIServer.WatchCacheSizes.Default)
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
				done = append(done, fmt.Sprintf("Removed field spec.kubernetes.%s: not allowed from Kubernetes 1.%d on", f.path,
					f.minor))
			}
		}
	}
	gates := func(config *corev1beta1.KubernetesConfig, path string, version *semver.Version) {
		if names := drop(config.FeatureGates,
			corev1beta1.UnsupportedFeatureGates(config.FeatureGates, version.Original())); len(names) > 0 {
			done = append(done, fmt.Sprintf("Removed feature gates from %s: %s (not supported by Kubernetes %s)",
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
	if k.KubeAPIServer == nil {
		return done
	}
	if names := dropPlugins(k.KubeAPIServer, target); len(names) > 0 {
		done = append(done,
			fmt.Sprintf("Removed admission plugins from spec.kubernetes.kubeAPIServer: %s (not supported by Kubernetes %s)",
				strings.Join(names, ", "), target.Original()))
	}
	config := k.KubeAPIServer.RuntimeConfig
	if names := drop(config, corev1beta1.UnsupportedAPIVersions(config, target.Original())); len(names) > 0 {
		done = append(done,
			fmt.Sprintf("Removed API versions from spec.kubernetes.kubeAPIServer.runtimeConfig: %s (not supported by Kubernetes %s)",
				strings.Join(names, ", "), target.Original()))
	}
	return done
}

// drop deletes the entries and returns their names.
func drop(entries map[string]bool, names []string) []string {
	for _, name := range names {
		delete(entries, name)
	}
	return names
}

// dropPlugins deletes the plugins that the version does not have and returns their names, sorted.
func dropPlugins(config *corev1beta1.KubeAPIServerConfig, version *semver.Version) []string {
	var names []string
	config.AdmissionPlugins = slices.DeleteFunc(config.AdmissionPlugins, func(p corev1beta1.AdmissionPlugin) bool {
		minor, removed := removedPlugins[p.Name]
		removed = removed && version.Minor() >= minor || corev1beta1.UnsupportedAdmissionPlugin(p.Name, version.Original())
		if removed {
			names = append(names, p.Name)
		}
		return removed
	})
	slices.Sort(names)
	return names
}

// MayNeedFixUp reports whether FixUp could remove anything from the spec for any Kubernetes version.
func MayNeedFixUp(spec *corev1beta1.ShootSpec) bool {
	plain := func(k *corev1beta1.WorkerKubernetes) bool { return k == nil || k.Kubelet == nil }
	if k := &spec.Kubernetes; k.KubeAPIServer == nil && k.KubeControllerManager == nil && k.KubeScheduler == nil &&
		k.KubeProxy == nil &&
		k.Kubelet == nil && k.ClusterAutoscaler == nil &&
		!slices.ContainsFunc(spec.Provider.Workers, func(w corev1beta1.Worker) bool { return !plain(w.Kubernetes) }) {
		return false // Most Shoots need no copy.
	}
	// The known minors also reject everything that earlier ones dropped.
	first, last := corev1beta1.KnownKubernetesMinors()
	for minor := first; minor <= last; minor++ {
		probe := corev1beta1.ShootSpec{Kubernetes: *spec.Kubernetes.DeepCopy()}
		for _, w := range spec.Provider.Workers {
			probe.Provider.Workers = append(probe.Provider.Workers, corev1beta1.Worker{Kubernetes: w.Kubernetes.DeepCopy()})
		}
		probe.Kubernetes.Version = fmt.Sprintf("1.%d.0", minor)
		for i := range probe.Provider.Workers {
			if k := probe.Provider.Workers[i].Kubernetes; k != nil {
				k.Version = nil
			}
		}
		if len(fixUp(&probe, "1.0.0")) > 0 {
			return true
		}
	}
	return false
}

// FixUp sets the versions in a Shoot's spec, in place, to those of the cluster and removes fields that the new versions
// do not support, as a maintenance does. It returns a description of each removal. before is the previous version of
// the control plane.
func FixUp(spec *corev1beta1.ShootSpec, after *Cluster, before string) []string {
	apply(spec, *after)
	return fixUp(spec, before)
}
