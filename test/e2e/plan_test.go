//go:build landscape

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// checkDiff shows what edits of the example Shoot would do. None of them is made.
func checkDiff(t *testing.T) {
	manifest := example(t, "shoot.yaml")
	before := generationOf(t, "demo")
	diff := func(text string) (out []struct {
		Pools []struct {
			Name, Effect string
			Reasons      []string
		}
	}) {
		t.Helper()
		if err := json.Unmarshal([]byte(hortus(t, "diff", "-f", fileWith(t, text), "-o", "json")), &out); err != nil ||
			len(out) != 1 || len(out[0].Pools) != 1 {
			t.Fatalf("the effects are %+v, %v", out, err)
		}
		return out
	}
	if pool := diff(manifest)[0].Pools[0]; pool.Effect != "kept" {
		t.Errorf("without an edit, pool %s is %s: %q", pool.Name, pool.Effect, pool.Reasons)
	}
	pool := diff(strings.Replace(manifest, "type: small", "type: medium", 1))[0].Pools[0]
	if want := "machine type: small -> medium"; pool.Effect != "rolled" || !slices.Contains(pool.Reasons, want) {
		t.Errorf("with another machine type, pool %s is %s: %q, want %q", pool.Name, pool.Effect, pool.Reasons, want)
	}
	edit := strings.NewReplacer("100.96.0.0/16", "100.80.0.0/16", "100.64.0.0/16", "100.81.0.0/16")
	invalid := fileWith(t, edit.Replace(manifest))
	out, err := run(t, filepath.Join(repository, ".build", "hortus"), "diff", "-f", invalid)
	if err == nil || !strings.Contains(out, "spec.networking.pods") || !strings.Contains(out, "spec.networking.services") {
		t.Errorf("an invalid edit: %v\n%s", err, out)
	}
	if after := generationOf(t, "demo"); after != before {
		t.Errorf("the Shoot has generation %s, and had %s", after, before)
	}
}

// checkRestarts makes an edit, and compares the pods of the control plane that are replaced with those that were said.
func checkRestarts(t *testing.T) {
	const version, part = `version: "1.36"`, "kube-controller-manager"
	edited := strings.Replace(example(t, "shoot.yaml"), version,
		version+"\n    kubeControllerManager: {nodeMonitorGracePeriod: 50s}", 1)
	var said []struct {
		Restarts []struct {
			Name    string
			Reasons []string
		}
	}
	out := hortus(t, "diff", "-f", fileWith(t, edited), "-o", "json")
	if err := json.Unmarshal([]byte(out), &said); err != nil || len(said) != 1 || len(said[0].Restarts) != 1 ||
		said[0].Restarts[0].Name != part {
		t.Fatalf("the edit restarts %+v, want %s: %v", said, part, err)
	}
	before := controlPlanePods(t, "demo")
	if out, err := applyText(t, kubeconfigOf("garden"), edited); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitSucceeded(t, "demo")
	eventually(t, "the former pod is gone", func() error {
		for workload, pods := range controlPlanePods(t, "demo") {
			replaced := !slices.Equal(pods, before[workload])
			if expected := strings.Contains(workload, part); len(pods) != len(before[workload]) || replaced != expected {
				return fmt.Errorf("%s has pods %v, and had %v", workload, pods, before[workload])
			}
		}
		return nil
	})
}

func generationOf(t *testing.T, shoot string) string {
	t.Helper()
	return kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", shoot,
		"-o", "jsonpath={.metadata.generation}")
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkPlan computes the plan of the example Shoot, for the present CloudProfile and for one that leads to a dead end.
func checkPlan(t *testing.T) {
	if out := hortus(t, "plan", "-n", projectNS, "demo", "--until", "2y"); !strings.Contains(out, projectNS+"/demo") {
		t.Errorf("the plan does not show the Shoot:\n%s", out)
	}
	var plan struct {
		Shoots []struct {
			Name          string `json:"name"`
			CloudProfile  string `json:"cloudProfile"`
			EndKubernetes string `json:"kubernetesVersionAtEnd"`
		} `json:"shoots"`
	}
	if err := json.Unmarshal([]byte(hortus(t, "plan", "-n", projectNS, "demo", "-o", "json")), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Shoots) != 1 || plan.Shoots[0].Name != "demo" || plan.Shoots[0].CloudProfile != "local" ||
		plan.Shoots[0].EndKubernetes != "1.36.3" {
		t.Errorf("the plan in JSON is %+v", plan)
	}
	var step struct {
		Changed, Failed bool
		Version         string `json:"kubernetesVersion"`
		Workers         []struct{ Name, Image, ImageVersion string }
	}
	if err := json.Unmarshal([]byte(hortus(t, "plan", "-n", projectNS, "demo", "--step")), &step); err != nil {
		t.Fatal(err)
	}
	if step.Changed || step.Failed || step.Version != "1.36.3" || len(step.Workers) != 1 ||
		step.Workers[0].ImageVersion != "1.2.0" {
		t.Errorf("the next step is %+v", step)
	}

	profile, err := os.ReadFile(filepath.Join(repository, "local/landscape/manifests/cloudprofile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().AddDate(0, 1, 0).UTC().Format(time.RFC3339)
	changed := strings.ReplaceAll(string(profile), "{{ .Architecture }}", runtime.GOARCH)
	changed = strings.Replace(changed, "- version: 1.2.0\n", "- version: 1.2.0\n      expirationDate: \""+end+"\"\n", 1)
	path := filepath.Join(t.TempDir(), "cloudprofile.yaml")
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, filepath.Join(repository, ".build", "hortus"), "plan", "-n", projectNS, "demo", "--with", path)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("a CloudProfile in which the image version expires gives %v, want exit code 3", err)
	}
	if !strings.Contains(out, projectNS+"/demo") || !strings.Contains(out, "stuck") {
		t.Errorf("the comparison does not show that the Shoot gets stuck:\n%s", out)
	}

	if out := hortus(t, "versions"); !strings.Contains(out, "1.36.3") || !strings.Contains(out, "hortus-machine") {
		t.Errorf("the catalogue lacks versions:\n%s", out)
	}
	if out := hortus(t, "versions", "-n", projectNS, "demo"); !strings.Contains(out, "1.36.3") ||
		!strings.Contains(out, "image hortus-machine of pool pool") {
		t.Errorf("the Shoot's own versions are:\n%s", out)
	}
}

// checkMaintenance requests an immediate maintenance, for which an operation is scheduled.
func checkMaintenance(t *testing.T) {
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", "demo",
		"maintenance.gardener.cloud/operation=rotate-observability-credentials", "gardener.cloud/operation=maintain")
	awaitShoot(t, "demo", "the maintenance to be recorded and its rotation to be completed",
		func(o *unstructured.Unstructured) bool {
			if !succeeded(o) {
				return false
			}
			state, _, _ := unstructured.NestedString(o.Object, "status", "lastMaintenance", "state")
			description, _, _ := unstructured.NestedString(o.Object, "status", "lastMaintenance", "description")
			_, rotated, _ := unstructured.NestedString(o.Object, "status", "credentials", "rotation", "observability",
				"lastCompletionTime")
			left := o.GetAnnotations()["gardener.cloud/operation"] + o.GetAnnotations()["maintenance.gardener.cloud/operation"]
			return state == "Succeeded" && strings.Contains(description,
				"rotate-observability-credentials") && rotated && left == ""
		})
}
