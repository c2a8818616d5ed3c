// Package highavailability sets replicas, zones and spreading of workloads as required by their namespace, so that
// charts of extensions need not know about seeds. [Settings] has the requirements of a namespace, and [Apply] changes a
// workload accordingly.
package highavailability

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// Settings are the requirements of a namespace.
type Settings struct {
	// Tolerance is the failure to tolerate; nil if the namespace does not specify it, "" if it requires none.
	Tolerance *string
	// Zones of the namespace. Pinned keeps pods in them.
	Zones  []string
	Pinned bool
}

// SettingsOf reads the annotations of a namespace.
func SettingsOf(namespace *corev1.Namespace) Settings {
	var s Settings
	if tolerance, ok := namespace.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityFailureTolerance]; ok {
		s.Tolerance = &tolerance
	}
	for zone := range strings.SplitSeq(namespace.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityZones], ",") {
		if zone = strings.TrimSpace(zone); zone != "" {
			s.Zones = append(s.Zones, zone)
		}
	}
	pinning := namespace.Annotations[resourcesv1alpha1.AnnotationHighAvailabilityZonePinning] == "true"
	s.Pinned = len(s.Zones) > 0 && (s.Tolerance != nil || pinning)
	return s
}

// toleratesFailures reports whether a failure of a node or zone has to be tolerated.
func (s Settings) toleratesFailures() bool { return s.Tolerance != nil && *s.Tolerance != "" }

// replicas are those of workloads of the type.
func (s Settings) replicas(kind string) int32 {
	if kind == resourcesv1alpha1.HighAvailabilityController && s.Tolerance != nil && *s.Tolerance == "" {
		return 1
	}
	return 2
}
