//go:build landscape

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
