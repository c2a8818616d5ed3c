//go:build landscape

package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

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

// withoutServer is the template of an extension whose webhooks for two control planes nobody serves. Requests for one
// of them fail without the webhook, those for the other do not.
const withoutServer = `apiVersion: v1
kind: Service
metadata: {name: serverless, namespace: "{{ .Release.Namespace }}"}
spec: {ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: serverless}
webhooks:
{{- range $shoot, $policy := dict "barred" "Fail" "spared" "Ignore" }}
- name: {{ $shoot }}.serverless.example.com
  clientConfig: {service: {namespace: {{ $.Release.Namespace }}, name: serverless, path: /}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shoot--dev--{{ $shoot }}}}
  rules:
  - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}
  failurePolicy: {{ $policy }}
  sideEffects: None
  timeoutSeconds: 5
  admissionReviewVersions: [v1]
{{- end }}
`

// everywhere is the registration of an extension that is for everything in a seed.
const everywhere = `apiVersion: core.gardener.cloud/v1
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
    policy: Always
    deploymentRefs: [{name: %[1]s}]
`

// TestBrokenExtensionsHarmNobody: an extension whose chart cannot be rendered, one whose image does not exist, one that
// never acts, and one whose webhooks nobody serves, are reported with the reason. A Shoot that requires them names
// them; other Shoots are created. When the extensions are removed, the Shoots continue by themselves.
func TestBrokenExtensionsHarmNobody(t *testing.T) {
	story(t, firstSeed)
	const garbled, imageless, silent, serverless = "garbled", "imageless", "silent", "serverless"
	garden := kubeconfigOf("garden")
	templates := map[string]string{
		garbled: `{{ required "the value region must be set" .Values.region }}`, imageless: deploymentWithoutImage,
		silent:     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: silent, namespace: \"{{ .Release.Namespace }}\"}\n",
		serverless: withoutServer,
	}
	all := slices.Sorted(maps.Keys(templates))
	remove := func(t *testing.T, flags ...string) {
		t.Helper()
		kubectl(t, garden, slices.Concat([]string{"delete", "controllerregistration,controllerdeployment"}, all, flags)...)
	}
	t.Cleanup(func() { remove(t, "--ignore-not-found", "--wait=false") })
	for name, template := range templates {
		archive, err := chart.Archive(fstest.MapFS{
			"broken/Chart.yaml":          {Data: []byte("apiVersion: v2\nname: broken\nversion: 0.1.0\n")},
			"broken/templates/main.yaml": {Data: []byte(template)},
		}, "broken", "broken")
		if err != nil {
			t.Fatal(err)
		}
		registration := brokenRegistration
		if name == serverless {
			registration = everywhere
		}
		if out, err := applyText(t, garden,
			fmt.Sprintf(registration, name, base64.StdEncoding.EncodeToString(archive))); err != nil {
			t.Fatalf("register extension %s: %v\n%s", name, err, out)
		}
	}
	eventually(t, "the webhooks of extension "+serverless+" to be registered", func() error {
		_, err := kubectlE(t, adminOf("local-1"), "get", "mutatingwebhookconfiguration", serverless)
		return err
	})
	applyShootOn(t, "shoot-workerless.yaml", "calm", "local-1")
	applyShootOn(t, "shoot-workerless.yaml", "struck", "local-1",
		"extensions: [{type: "+garbled+"}, {type: "+imageless+"}]")
	applyShootOn(t, "shoot-workerless.yaml", "unheard", "local-1", "extensions: [{type: "+silent+"}]")
	for _, shoot := range []string{"barred", "spared"} {
		applyShootOn(t, "shoot-workerless.yaml", shoot, "local-1")
	}

	step(t, "the Shoot of an extension that never acts names it", func(t *testing.T) {
		since := createdAt(t, adminOf("local-1"), "-n", "shoot--dev--unheard", "extension", silent)
		awaitReport(t, "unheard", since, "Extension silent has not been observed by its extension yet")
	})
	step(t, "a Shoot whose objects a webhook without server refuses names it", func(t *testing.T) {
		since := createdAt(t, adminOf("local-1"), "namespace", "shoot--dev--barred")
		awaitReport(t, "barred", since, "barred.serverless.example.com")
	})
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
	eventually(t, "the explanation of the Seed", func() error {
		out, err := run(t, filepath.Join(repository, ".build", "hortus"), "explain", "seed/local-1", "-o", "json")
		for _, want := range []string{
			garbled + "-local-1", "the value region must be set", "its values in the ControllerDeployment",
			imageless + "-local-1", "hortus.dev/does-not-exist:1.0.0",
		} {
			if err != nil || !strings.Contains(out, want) {
				return fmt.Errorf("explain does not say %q: %s, %v", want, out, err)
			}
		}
		return nil
	})
	awaitShoot(t, "struck", "the extensions that it waits for", func(o *unstructured.Unstructured) bool {
		text := statusText(o)
		return strings.Contains(text, "Extension/garbled (condition Valid of ControllerInstallation garbled-local-1 is False)") &&
			strings.Contains(text, "Extension/imageless (condition Healthy of ControllerInstallation imageless-local-1 is False)")
	})
	awaitSucceeded(t, "calm")
	awaitSucceeded(t, "spared")

	for _, shoot := range []string{"struck", "unheard"} {
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", shoot, "--type=merge", "-p", `{"spec":{"extensions":null}}`)
	}
	awaitSucceeded(t, "struck")
	awaitSucceeded(t, "unheard")
	remove(t)
	eventually(t, "nothing of the extensions is left", func() error {
		left := kubectl(t, garden, "get", "controllerinstallations,namespaces", "-o", "name")
		for _, name := range all {
			if strings.Contains(left, name) {
				return fmt.Errorf("there are %s", left)
			}
		}
		return nil
	})
	awaitSucceeded(t, "barred")
	mine := []string{"calm", "struck", "unheard", "barred", "spared"}
	kubectl(t, garden, slices.Concat([]string{"-n", projectNS, "annotate", "--overwrite", "shoots"}, mine,
		[]string{"confirmation.gardener.cloud/deletion=true"})...)
	kubectl(t, garden, slices.Concat([]string{"-n", projectNS, "delete", "shoots", "--wait=false"}, mine)...)
}

// createdAt waits until an object exists, and returns when it was created.
func createdAt(t *testing.T, kubeconfig string, object ...string) (at time.Time) {
	t.Helper()
	eventually(t, strings.Join(object, " ")+" to be created", func() error {
		text, err := kubectlE(t, kubeconfig, slices.Concat([]string{"get", "-o", "jsonpath={.metadata.creationTimestamp}"},
			object)...)
		if err == nil {
			at, err = time.Parse(time.RFC3339, text)
		}
		return err
	})
	return at
}

// awaitReport waits until the status of a Shoot has a text, and logs how long it took. Without other load on the
// machine it is less than a minute.
func awaitReport(t *testing.T, shoot string, since time.Time, text string) {
	t.Helper()
	o := awaitShoot(t, shoot, "status with: "+text, func(o *unstructured.Unstructured) bool {
		return strings.Contains(statusText(o), text)
	})
	t.Logf("Shoot %s shows after %s: %s", shoot, time.Since(since).Round(time.Second), lastOperation(o, "description"))
}
