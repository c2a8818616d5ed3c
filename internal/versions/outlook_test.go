package versions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
)

func TestWhereVersionsCanGo(t *testing.T) {
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	spec := &corev1beta1.CloudProfileSpec{}
	for _, v := range []string{"1.29.1", "1.30.0", "1.30.4", "1.31.2", "1.32.0", "1.33.1", "2.0.0"} {
		spec.Kubernetes.Versions = append(spec.Kubernetes.Versions, corev1beta1.ExpirableVersion{Version: v})
	}
	profile, err := cloudprofile.Compile("p", spec)
	if err != nil {
		t.Fatal(err)
	}
	shoot := func(controlPlane string, pools ...string) *corev1beta1.Shoot {
		s := &corev1beta1.Shoot{}
		s.Spec.Kubernetes.Version = controlPlane
		for _, p := range pools {
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers,
				corev1beta1.Worker{Name: p, Kubernetes: &corev1beta1.WorkerKubernetes{Version: &p}})
		}
		return s
	}
	pool := func(version string, inPlace bool) *maintenance.Pool {
		return &maintenance.Pool{Kubernetes: version, InPlace: inPlace}
	}
	for name, tc := range map[string]struct{ got, want []string }{
		"a control plane skips no minor version": {
			controlPlaneTargets(profile, shoot("1.30.0"), now), []string{"1.30.4", "1.31.2"},
		},
		"it waits for a pool that is too old": {
			controlPlaneTargets(profile, shoot("1.32.0", "1.29.1"), now), []string{},
		},
		"it does not wait for a pool that is new enough": {
			controlPlaneTargets(profile, shoot("1.32.0", "1.30.0"), now), []string{"1.33.1"},
		},
		"a pool can be updated up to the control plane": {
			poolTargets(profile, pool("1.29.1", false), "1.32.0", now), []string{"1.30.0", "1.30.4", "1.31.2", "1.32.0"},
		},
		"machines that stay skip no minor version": {
			poolTargets(profile, pool("1.29.1", true), "1.32.0", now), []string{"1.30.0", "1.30.4"},
		},
		"an invalid version has none":               {controlPlaneTargets(profile, shoot("newest"), now), []string{}},
		"an invalid control plane version has none": {poolTargets(profile, pool("1.29.1", false), "newest", now), []string{}},
		"the highest of a major version has none":   {controlPlaneTargets(profile, shoot("1.33.1"), now), []string{}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s: mismatch (-want +got):\n%s", name, diff)
		}
	}
}
