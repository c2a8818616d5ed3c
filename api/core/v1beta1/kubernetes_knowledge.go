package v1beta1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a Kubernetes component would refuse when it starts is refused here, when it is requested. Nothing is known about
// minors other than those of zz_generated.kubernetes.go; everything is accepted for them.

// factOf returns the fact of a table about an entry in a Kubernetes version. known is false if nothing is known about
// the version.
func factOf(table map[string]string, entry, version string) (fact byte, known bool) {
	minor := minorOf(version)
	if minor < firstKnownMinor || minor > lastKnownMinor {
		return 0, false
	}
	states, ok := table[entry]
	if !ok {
		return '-', true
	}
	return states[minor-firstKnownMinor], true
}

func validateFeatureGates(gates map[string]bool, version string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, gate := range sortedKeys(gates) {
		fact, known := factOf(featureGates, gate, version)
		switch {
		case !known:
		case fact == '-':
			errs = append(errs, field.Forbidden(path.Key(gate), "the feature gate does not exist in Kubernetes "+version))
		case fact == 't' && !gates[gate]:
			errs = append(errs, field.Forbidden(path.Key(gate), "cannot be switched off in Kubernetes "+version))
		case fact == 'f' && gates[gate]:
			errs = append(errs, field.Forbidden(path.Key(gate), "cannot be switched on in Kubernetes "+version))
		}
	}
	return errs
}

// requiredAPIVersions are used by the control plane itself, and, the second list, by what runs on nodes.
var (
	requiredAPIVersions = []string{
		"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1",
		"authentication.k8s.io/v1", "authorization.k8s.io/v1", "certificates.k8s.io/v1", "coordination.k8s.io/v1",
		"events.k8s.io/v1", "rbac.authorization.k8s.io/v1",
	}
	requiredAPIVersionsWithWorkers = []string{
		"apps/v1", "autoscaling/v2", "batch/v1", "discovery.k8s.io/v1", "networking.k8s.io/v1", "node.k8s.io/v1",
		"policy/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1",
	}
	// apiStages switch all versions of a stage, except those that are switched by name.
	apiStages         = []string{"api/all", "api/ga", "api/beta", "api/alpha"}
	requiredAPIStages = []string{"api/all", "api/ga"}
)

// validateRuntimeConfig checks keys of the forms api/beta, group/version and group/version/resource. The core group's
// version is v1.
func validateRuntimeConfig(config map[string]bool, version string, workers bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(config) {
		path := path.Key(key)
		if slices.Contains(apiStages, key) {
			if !config[key] && slices.Contains(requiredAPIStages, key) {
				errs = append(errs, field.Forbidden(path, "includes API versions that the cluster needs"))
			}
			continue
		}
		apiVersion := apiVersionOf(key)
		if fact, known := factOf(apiVersions, apiVersion, version); known && fact == '-' {
			errs = append(errs, field.Forbidden(path, "the API version does not exist in Kubernetes "+version))
			continue
		}
		needed := slices.Contains(requiredAPIVersions, apiVersion) || workers &&
			slices.Contains(requiredAPIVersionsWithWorkers, apiVersion)
		if !config[key] && needed {
			errs = append(errs, field.Forbidden(path, "the cluster needs this API version"))
		}
	}
	return errs
}

func apiVersionOf(key string) string {
	parts := strings.SplitN(key, "/", 3)
	if parts[0] == "v1" || len(parts) == 1 {
		return parts[0]
	}
	return parts[0] + "/" + parts[1]
}

// knownAdmissionPlugins returns nil if nothing is known about the version.
func knownAdmissionPlugins(version string) []string {
	var known []string
	for _, name := range sortedKeys(admissionPlugins) {
		if fact, ok := factOf(admissionPlugins, name, version); ok && fact != '-' {
			known = append(known, name)
		}
	}
	return known
}

// unsupportedBy reports whether a Kubernetes version would refuse an entry of a table. Of minors later than the known
// ones, the last known minor is taken for what had been removed by then.
func unsupportedBy(table map[string]string, entry, version string, refused func(fact byte) bool) bool {
	if minorOf(version) > lastKnownMinor {
		states, listed := table[entry]
		return listed && refused(states[lastKnownMinor-firstKnownMinor])
	}
	fact, known := factOf(table, entry, version)
	return known && refused(fact)
}

func missing(fact byte) bool { return fact == '-' }

// UnsupportedFeatureGates returns the gates, sorted, that a Kubernetes version does not have, or has locked to the
// other value.
func UnsupportedFeatureGates(gates map[string]bool, version string) []string {
	return slices.DeleteFunc(sortedKeys(gates), func(gate string) bool {
		return !unsupportedBy(featureGates, gate, version, func(fact byte) bool {
			return missing(fact) || fact == 't' && !gates[gate] || fact == 'f' && gates[gate]
		})
	})
}

// UnsupportedAPIVersions returns the keys of a runtimeConfig, sorted, whose API version a Kubernetes version does not
// have.
func UnsupportedAPIVersions(config map[string]bool, version string) []string {
	return slices.DeleteFunc(sortedKeys(config), func(key string) bool {
		return slices.Contains(apiStages, key) || !unsupportedBy(apiVersions, apiVersionOf(key), version, missing)
	})
}

// UnsupportedAdmissionPlugin reports whether a Kubernetes version does not have the admission plugin.
func UnsupportedAdmissionPlugin(name, version string) bool {
	return unsupportedBy(admissionPlugins, name, version, missing)
}

// KnownKubernetesMinors returns the first and the last minor of Kubernetes 1 that something is known about.
func KnownKubernetesMinors() (first, last int) { return firstKnownMinor, lastKnownMinor }
