package charts_test

import (
	"cmp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestProbesTolerateABusyHost: a process that answers late is not replaced. A restart would cost the host more than it
// is short of, and disconnect the clients of an API server.
func TestProbesTolerateABusyHost(t *testing.T) {
	const answerSeconds, failingSeconds = 5, 60
	for name, values := range map[string]map[string]any{
		"garden": gardenValues(), "gardenlet": gardenletValues(nil), "provider-local": {},
		"seed-support": {"cluster": "seed", "cloud": map[string]any{"endpoint": "https://cloud.example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			checked := 0
			for _, o := range rendered(t, name, values) {
				// Deployments, StatefulSets and DaemonSets have their pod template in the same place.
				workload := &appsv1.Deployment{}
				if kind := o.GetKind(); kind != "Deployment" && kind != "StatefulSet" && kind != "DaemonSet" {
					continue
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, workload); err != nil {
					t.Fatal(err)
				}
				for _, container := range workload.Spec.Template.Spec.Containers {
					for _, p := range []*corev1.Probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe} {
						if p != nil && p.TimeoutSeconds < answerSeconds {
							t.Errorf("%s: container %s has a probe with a timeout of %d s, want at least %d s (1 s is the default)",
								o.GetName(), container.Name, p.TimeoutSeconds, answerSeconds)
						}
					}
					p := container.LivenessProbe
					if p == nil {
						continue
					}
					checked++
					if lasts := cmp.Or(p.PeriodSeconds, 10) * cmp.Or(p.FailureThreshold, 3); lasts < failingSeconds {
						t.Errorf("%s: container %s is restarted after %d s without an answer, want at least %d s", o.GetName(),
							container.Name, lasts, failingSeconds)
					}
				}
			}
			if checked == 0 {
				t.Error("no probe was checked")
			}
		})
	}
}
