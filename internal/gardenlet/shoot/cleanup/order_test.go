package cleanup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestTimes(t *testing.T) {
	type times struct{ grace, finalize int }
	columns := []string{"-", "0", "60", "299", "300", "600", "3599", "3600"}
	for name, row := range map[string][]times{
		Webhooks:            {{300, 300}, {0, 0}, {60, 60}, {299, 299}, {300, 300}, {300, 300}, {300, 300}, {300, 300}},
		ExtendedAPIs:        {{300, 3600}, {0, 0}, {6, 60}, {29, 299}, {30, 300}, {60, 600}, {359, 3599}, {300, 3600}},
		KubernetesResources: {{300, 300}, {0, 0}, {60, 60}, {299, 299}, {300, 300}, {300, 300}, {300, 300}, {300, 300}},
		VolumeSnapshots:     {{300, 3600}, {0, 0}, {30, 60}, {149, 299}, {150, 300}, {300, 600}, {1799, 3599}, {300, 3600}},
	} {
		for i, value := range columns {
			t.Run(fmt.Sprintf("%s with %s", name, value), func(t *testing.T) {
				annotations := map[string]string{}
				if value != "-" {
					annotations[table[name].annotation] = value
				}
				step, ok, err := Plan(name, annotations)
				if err != nil || !ok {
					t.Fatalf("Plan() = %t, %v", ok, err)
				}
				if got := (times{int(step.Grace.Seconds()), int(step.Finalize.Seconds())}); got != row[i] {
					t.Errorf("grace and finalize = %v, want %v", got, row[i])
				}
			})
		}
	}
}

func TestPlanRefusesAnUnreadableAnnotation(t *testing.T) {
	for _, value := range []string{"soon", "-1", "1.5"} {
		if _, _, err := Plan(Webhooks,
			map[string]string{corev1beta1.AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds: value}); err == nil {
			t.Errorf("Plan() accepted %q", value)
		}
	}
}

// The API warns of exactly the times that change no step, whatever their size.
func TestTimesThatChangeNothingLeadToAWarning(t *testing.T) {
	for _, annotation := range []string{
		corev1beta1.AnnotationShootCleanupWebhooksFinalizeGracePeriodSeconds,
		corev1beta1.AnnotationShootCleanupExtendedAPIsFinalizeGracePeriodSeconds,
		corev1beta1.AnnotationShootCleanupKubernetesResourcesFinalizeGracePeriodSeconds,
	} {
		for _, value := range []string{"0", "299", "300", "301", "3599", "3600", "3601", "99999999999"} {
			shoot := &corev1beta1.Shoot{}
			shoot.Annotations = map[string]string{annotation: value}
			changed := false
			for name := range table {
				step, _, err := Plan(name, shoot.Annotations)
				if err != nil {
					t.Fatal(err)
				}
				byDefault, _, err := Plan(name, nil)
				if err != nil {
					t.Fatal(err)
				}
				changed = changed || step.Finalize != byDefault.Finalize || step.Grace != byDefault.Grace
			}
			warned := slices.ContainsFunc(corev1beta1.WarningsShoot(shoot, nil, time.Time{}), func(text string) bool {
				return strings.HasPrefix(text, "metadata.annotations["+annotation+"] has no effect")
			})
			if warned == changed {
				t.Errorf("%s=%s: changes a time: %t, leads to a warning: %t", annotation, value, changed, warned)
			}
		}
	}
}

func TestSkipCleanup(t *testing.T) {
	for value, skipped := range map[string]bool{"true": true, "1": true, "false": false, "": false, "perhaps": false} {
		annotations := map[string]string{corev1beta1.AnnotationShootSkipCleanup: value}
		_, ok, err := Plan(ExtendedAPIs, annotations)
		if err != nil || ok == skipped {
			t.Errorf("skip-cleanup=%q: extended APIs cleaned = %t, %v", value, ok, err)
		}
		step, _, err := Plan(KubernetesResources, annotations)
		if err != nil {
			t.Fatal(err)
		}
		if only := len(step.Kinds) == 2; only != skipped {
			t.Errorf("skip-cleanup=%q: kinds %v", value, step.Kinds)
		}
	}
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	step, _, err := Plan(KubernetesResources, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		kind string
		meta metav1.ObjectMeta
		want Action
	}{
		"a Deployment without labels": {"Deployment", metav1.ObjectMeta{}, Delete},
		"a Deployment that must be kept": {
			"Deployment", metav1.ObjectMeta{Labels: map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}}, Keep,
		},
		"a system component": {
			"Deployment", metav1.ObjectMeta{Labels: map[string]string{"gardener.cloud/role": "system-component"}}, Keep,
		},
		"an APIService does not honour the label": {
			"APIService", metav1.ObjectMeta{Labels: map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}}, Delete,
		},
		"an APIService that the aggregator manages": {
			"APIService", metav1.ObjectMeta{Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
			Keep,
		},
		"the Service of Kubernetes": {
			"Service", metav1.ObjectMeta{Labels: map[string]string{"provider": "kubernetes"}}, Keep,
		},
		"a Pod in deletion for six minutes, with a finalizer": {
			"Pod", metav1.ObjectMeta{DeletionTimestamp: ago(6 * time.Minute), Finalizers: []string{"x"}}, Finalize,
		},
		"a Pod in deletion for six minutes, without": {
			"Pod", metav1.ObjectMeta{DeletionTimestamp: ago(6 * time.Minute), DeletionGracePeriodSeconds: ptr.To[int64](30)},
			Force,
		},
		"another object in deletion for six minutes, without": {
			"Service", metav1.ObjectMeta{DeletionTimestamp: ago(6 * time.Minute)}, Wait,
		},
		"a Pod in deletion with a grace period of its own": {
			"Pod", metav1.ObjectMeta{DeletionTimestamp: ago(-time.Minute), DeletionGracePeriodSeconds: ptr.To[int64](60)},
			Wait,
		},
		"a Pod in deletion with a grace period of an hour": {
			"Pod", metav1.ObjectMeta{DeletionTimestamp: ago(-time.Hour), DeletionGracePeriodSeconds: ptr.To[int64](3600)},
			Delete,
		},
		"a Pod in deletion for four minutes": {
			"Pod", metav1.ObjectMeta{DeletionTimestamp: ago(4 * time.Minute), Finalizers: []string{"x"}}, Wait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Decide(step, tc.kind, &tc.meta, now); got != tc.want {
				t.Errorf("Decide() = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestUntouchedKinds(t *testing.T) {
	untouched := map[string]bool{"Namespace": true, "ConfigMap": true, "Secret": true, "ClusterRole": true, "Role": true}
	var touched []string
	for _, e := range table {
		for _, k := range e.kinds {
			if untouched[k.Kind] {
				touched = append(touched, k.Kind)
			}
		}
	}
	if diff := cmp.Diff([]string(nil), touched); diff != "" {
		t.Errorf("kinds that must be kept (-want +got):\n%s", diff)
	}
}
