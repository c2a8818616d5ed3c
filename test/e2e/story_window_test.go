//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/internal/maintenance"
)

// TestConfinedChangesWaitForTheirWindow changes a Shoot whose changes are confined to its maintenance time window, and
// defers an operation to it. Both wait until the window opens; at the time within it that 'hortus plan' shows, the
// change is rolled out and the operation starts.
func TestConfinedChangesWaitForTheirWindow(t *testing.T) {
	story(t, firstSeed)
	const name, seed, namespace = "waiting", "local-1", "shoot--dev--waiting"
	const operation, deferred = "rotate-observability-credentials", "maintenance.gardener.cloud/operation"
	garden := kubeconfigOf("garden")
	applyShootOn(t, "shoot-workerless.yaml", name, seed, confinedUntilLater(time.Now()))
	generation := awaitSucceeded(t, name).GetGeneration()
	rolledOut := func() bool {
		return strings.Contains(kubectl(t, adminOf(seed), "-n", namespace, "get", "deployment", "kube-apiserver", "-o",
			"jsonpath={.spec.template.spec.containers[*].args} {.spec.template.spec.containers[*].command}"), "--event-ttl=2h")
	}
	kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, deferred+"="+operation)
	kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p",
		`{"spec":{"kubernetes":{"kubeAPIServer":{"eventTTL":"2h"}}}}`)

	begin := soonestWindow(projectNS+"/"+name, time.Now())
	kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p", timeWindow(begin))
	planned := plannedStart(t, name, operation)
	t.Logf("the window opens at %s; the maintenance is planned for %s", begin.Format(time.TimeOnly),
		planned.Format(time.TimeOnly))
	if rolledOut() && time.Now().Before(planned) {
		t.Error("the change was rolled out before its time")
	}
	started := awaitShoot(t, name, "the maintenance to start", func(o *unstructured.Unstructured) bool {
		return o.GetGeneration() != generation
	})
	now := time.Now()
	if now.Before(planned) || now.After(begin.Add(maintenance.MinWindow)) {
		t.Errorf("the maintenance started at %s, planned was %s", now.UTC().Format(time.TimeOnly),
			planned.Format(time.TimeOnly))
	}
	if got := started.GetGeneration(); got != generation+1 {
		t.Errorf("the generation went from %d to %d", generation, got)
	}

	done := awaitShoot(t, name, "the change to be rolled out, and the operation to be done",
		func(o *unstructured.Unstructured) bool {
			rotated := timeIn(o, "status", "credentials", "rotation", "observability", "lastCompletionTime")
			return succeeded(o) && !rotated.IsZero()
		})
	if !rolledOut() {
		t.Error("the API server does not have the change")
	}
	for what, path := range map[string]string{
		"the last operation was updated": "lastOperation.lastUpdateTime",
		"the last maintenance began":     "lastMaintenance.triggeredTime",
		"the rotation began":             "credentials.rotation.observability.lastInitiationTime",
	} {
		at := timeIn(done, strings.Split("status."+path, ".")...)
		if at.Before(planned.Truncate(time.Second)) {
			t.Errorf("%s at %s, planned was %s", what, at.UTC().Format(time.TimeOnly), planned.Format(time.TimeOnly))
		}
	}
	state, _, _ := unstructured.NestedString(done.Object, "status", "lastMaintenance", "state")
	description, _, _ := unstructured.NestedString(done.Object, "status", "lastMaintenance", "description")
	if state != "Succeeded" || !strings.Contains(description, operation) {
		t.Errorf("the last maintenance is %s: %s", state, description)
	}
	if left := done.GetAnnotations()[deferred]; left != "" {
		t.Errorf("the operation %s is still deferred", left)
	}
}

// windowForm is the form of the ends of a maintenance time window.
const windowForm = "150405-0700"

// laterWindow is the field of a maintenance time window that opens in six hours.
func laterWindow(now time.Time) string {
	begin := now.UTC().Add(6 * time.Hour)
	return fmt.Sprintf("timeWindow: {begin: %q, end: %q}", begin.Format(windowForm),
		begin.Add(time.Hour).Format(windowForm))
}

// timeWindow is the merge patch that gives a Shoot a maintenance time window of the minimum length.
func timeWindow(begin time.Time) string {
	return fmt.Sprintf(`{"spec":{"maintenance":{"timeWindow":{"begin":%q,"end":%q}}}}`, begin.Format(windowForm),
		begin.Add(maintenance.MinWindow).Format(windowForm))
}

// soonestWindow returns the begin of a window of the minimum length in which a Shoot's maintenance starts as soon as
// possible. There is time enough until the begin to write the window and to compute the plan.
func soonestWindow(shoot string, now time.Time) time.Time {
	const early, candidates = 30 * time.Second, 120
	jitter := maintenance.HashJitter(0)
	first := now.UTC().Truncate(time.Second).Add(early)
	var soonest time.Time
	var wait time.Duration
	for i := range candidates {
		begin := first.Add(time.Duration(i) * time.Second)
		w, err := maintenance.ParseWindow(begin.Format(windowForm), begin.Add(maintenance.MinWindow).Format(windowForm))
		if err != nil {
			panic(err) // A time in the form of a window's ends can be parsed.
		}
		if until := w.Effective().UntilNext(now.UTC(), shoot, false, jitter); soonest.IsZero() || until < wait {
			soonest, wait = begin, until
		}
	}
	return soonest
}

// plannedStart is when a deferred operation of a Shoot starts according to 'hortus plan'.
func plannedStart(t *testing.T, shoot, operation string) time.Time {
	t.Helper()
	var plan struct {
		Shoots []struct {
			Operations []struct {
				At   time.Time
				Name string
			}
		}
	}
	out := hortus(t, "plan", "-n", projectNS, shoot, "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Shoots) != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, o := range plan.Shoots[0].Operations {
		if o.Name == operation {
			return o.At.UTC()
		}
	}
	t.Fatalf("the plan does not show the operation %s:\n%s", operation, out)
	return time.Time{}
}

// timeIn returns a time in an object, the zero time if there is none.
func timeIn(o *unstructured.Unstructured, path ...string) time.Time {
	if o == nil {
		return time.Time{}
	}
	text, _, _ := unstructured.NestedString(o.Object, path...)
	var out metav1.Time
	if err := json.Unmarshal([]byte(`"`+text+`"`), &out); err != nil {
		return time.Time{}
	}
	return out.Time
}
