//go:build landscape

package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/internal/chart"
)

// brokenRegistration registers an extension for a type of its own name.
const brokenRegistration = `apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: %[1]s}
helm:
  rawChart: %[2]s
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: %[1]s}
spec:
  deployment:
    deploymentRefs: [{name: %[1]s}]
  resources:
  - {kind: Extension, type: %[1]s, workerlessSupported: true}
`

// deploymentWithoutImage is the template of an extension whose image is in no registry.
const deploymentWithoutImage = `apiVersion: apps/v1
kind: Deployment
metadata: {name: imageless, namespace: "{{ .Release.Namespace }}"}
spec:
  selector: {matchLabels: {app: imageless}}
  template:
    metadata: {labels: {app: imageless}}
    spec:
      containers: [{name: imageless, image: "hortus.dev/does-not-exist:1.0.0"}]
`

// TestBrokenExtensionsHarmNobody: an extension whose chart cannot be rendered, and one whose image does not exist, are
// reported with the reason. A Shoot that requires them names them; other Shoots are created. Both extensions can be
// removed.
func TestBrokenExtensionsHarmNobody(t *testing.T) {
	story(t, firstSeed)
	const garbled, imageless = "garbled", "imageless"
	garden := kubeconfigOf("garden")
	charts := map[string]string{
		garbled: `{{ required "the value region must be set" .Values.region }}`, imageless: deploymentWithoutImage,
	}
	t.Cleanup(func() {
		kubectl(t, garden, "delete", "--ignore-not-found", "--wait=false", "controllerregistration,controllerdeployment",
			garbled, imageless)
	})
	for name, template := range charts {
		archive, err := chart.Archive(fstest.MapFS{
			"broken/Chart.yaml":          {Data: []byte("apiVersion: v2\nname: broken\nversion: 0.1.0\n")},
			"broken/templates/main.yaml": {Data: []byte(template)},
		}, "broken", "broken")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := applyText(t, garden,
			fmt.Sprintf(brokenRegistration, name, base64.StdEncoding.EncodeToString(archive))); err != nil {
			t.Fatalf("register extension %s: %v\n%s", name, err, out)
		}
	}
	applyShootOn(t, "shoot-workerless.yaml", "calm", "local-1")
	applyShootOn(t, "shoot-workerless.yaml", "struck", "local-1",
		"extensions: [{type: "+garbled+"}, {type: "+imageless+"}]")

	for _, want := range []struct{ name, condition, text string }{
		{garbled, "Valid", "False ChartCannotBeRendered"}, {garbled, "Valid", "the value region must be set"},
		{imageless, "Healthy", "False "}, {imageless, "Healthy", "hortus.dev/does-not-exist:1.0.0"},
	} {
		eventually(t, want.condition+" of extension "+want.name+" with "+want.text, func() error {
			got, err := kubectlE(t, garden, "get", "controllerinstallation", want.name+"-local-1", "-o", fmt.Sprintf(
				`jsonpath={range .status.conditions[?(@.type==%q)]}{.status} {.reason}: {.message}{end}`, want.condition))
			if err != nil || !strings.Contains(got, want.text) {
				return fmt.Errorf("%s is %s, %v", want.condition, got, err)
			}
			return nil
		})
	}
	awaitShoot(t, "struck", "the extensions that it waits for", func(o *unstructured.Unstructured) bool {
		text := statusText(o)
		return strings.Contains(text, "Extension/garbled (condition Valid of ControllerInstallation garbled-local-1 is False)") &&
			strings.Contains(text, "Extension/imageless (condition Healthy of ControllerInstallation imageless-local-1 is False)")
	})
	awaitSucceeded(t, "calm")

	kubectl(t, garden, "-n", projectNS, "patch", "shoot", "struck", "--type=merge", "-p", `{"spec":{"extensions":null}}`)
	awaitSucceeded(t, "struck")
	kubectl(t, garden, "delete", "controllerregistration,controllerdeployment", garbled, imageless)
	eventually(t, "nothing of the extensions is left", func() error {
		all := kubectl(t, garden, "get", "controllerinstallations,namespaces", "-o", "name")
		for _, name := range []string{garbled, imageless} {
			if strings.Contains(all, name) {
				return fmt.Errorf("there are %s", all)
			}
		}
		return nil
	})
}
