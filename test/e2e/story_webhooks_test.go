//go:build landscape

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/hortus/internal/chart"
)

// taggerRegistration registers the extension of test/tagger; the chart and the image are to be filled in.
const taggerRegistration = `apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: tagger}
helm:
  rawChart: %s
  values: {image: %q}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: tagger
  annotations: {security.gardener.cloud/pod-security-enforce: restricted}
spec:
  deployment:
    deploymentRefs: [{name: tagger}]
  resources:
  - {kind: Extension, type: tagged, clusterCompatibility: [shoot, seed]}
`

// taggedPod shows what the extension does to a Shoot: its label, and the file on its node.
const taggedPod = `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: echo
    image: hortus.dev/echo:1.0.0
    args: [serve]
    volumeMounts: [{name: etc, mountPath: /node, readOnly: true}]
  volumes:
  - {name: etc, hostPath: {path: /etc}}
`

// prober is a webhook of the Shoot's owner with a URL in the seed.
const prober = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: %[1]s.example.com
  clientConfig: {url: %[2]q}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 10
  rules:
  - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  objectSelector: {matchLabels: {probe: %[1]s}}
`

// agentResource is what extensions deploy into Shoots: a ManagedResource, here with a program whose ServiceAccount
// mounts no token, and that says nothing about seccomp or its nodes.
const agentResource = `apiVersion: v1
kind: Secret
metadata: {name: agent, namespace: %[1]s}
stringData:
  objects.yaml: |
    apiVersion: v1
    kind: ServiceAccount
    metadata: {name: agent, namespace: kube-system}
    automountServiceAccountToken: false
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: agent, namespace: kube-system}
    spec:
      selector: {matchLabels: {app: agent}}
      template:
        metadata: {labels: {app: agent}}
        spec:
          serviceAccountName: agent
          dnsPolicy: Default
          topologySpreadConstraints:
          - maxSkew: 1
            topologyKey: kubernetes.io/hostname
            whenUnsatisfiable: ScheduleAnyway
            labelSelector: {matchLabels: {app: agent}}
          containers:
          - {name: echo, image: "hortus.dev/echo:1.0.0", args: [serve]}
---
apiVersion: resources.gardener.cloud/v1alpha1
kind: ManagedResource
metadata: {name: agent, namespace: %[1]s}
spec:
  secretRefs: [{name: agent}]
`

// TestWebhooksOfAnExtension: an extension, which a Seed uses at first, has webhooks for nodes and for the API server in
// the seed, and one in the Shoot that it serves from the seed. They act in every operation without changing anything
// again, reach nothing else, and go with the extension, which stays as long as the Shoot uses it.
func TestWebhooksOfAnExtension(t *testing.T) {
	story(t, firstSeed)
	const name, namespace, controlPlane = "tagged", "extension-tagger-local-1", "shoot--dev--tagged"
	garden, seed := kubeconfigOf("garden"), adminOf("local-1")
	get := func(kubeconfig string, args ...string) string {
		t.Helper()
		return strings.TrimSpace(kubectl(t, kubeconfig, append([]string{"get"}, args...)...))
	}
	installTagger(t)
	seedUsesTheExtension(t, garden, seed)
	applyShootOn(t, "shoot.yaml", name, "local-1", "extensions: [{type: tagged}]")
	awaitSucceeded(t, name)
	shoot := shootKubeconfig(t, name)

	const serverTag = `jsonpath={.spec.template.spec.containers[?(@.name=="kube-apiserver")].env[?(@.name=="TAGGER")].value}`
	tagged := func() {
		t.Helper()
		if got := get(seed, "-n", controlPlane, "deployment", "kube-apiserver", "-o", serverTag); got != "tagged" {
			t.Errorf("the API server has TAGGER=%q", got)
		}
	}
	tagged()
	if got := tagOf(t, shoot, "first"); got != "true" {
		t.Errorf("a pod of the Shoot has the label tagged=%q", got)
	}
	eventually(t, "the file is on the node", func() error { return fileOnNode(t, shoot, "first") })
	get(seed, "-n", namespace, "verticalpodautoscaler", "tagger")
	get(seed, "-n", namespace, "poddisruptionbudget", "tagger") // Its apiVersion depends on the version of the seed.
	if got := get(seed, "-n", namespace, "pods", "-l", "app=tagger", "-o",
		"jsonpath={.items[*].spec.volumes[*].projected.sources[*].serviceAccountToken.path}"); got != "token" {
		t.Errorf("the extension's pod, whose ServiceAccount mounts no token, has the token %q", got)
	}
	zones := strings.ReplaceAll(get(garden, "seed", "local-1", "-o", "jsonpath={.spec.provider.zones[*]}"), " ", ",")
	if got := get(seed, "namespace", namespace, "-o",
		`jsonpath={.metadata.annotations.high-availability-config\.resources\.gardener\.cloud/zones}`); got != zones {
		t.Errorf("the extension's namespace is in the zones %q, want %q", got, zones)
	}
	onlyOfferedWebhooksAreReached(t, shoot, namespace)
	podsOfExtensionsAreCompleted(t, seed, shoot, controlPlane)

	// What webhooks have changed is left as it is by the next operation.
	unchanged := func() string {
		return get(seed, "-n", controlPlane, "operatingsystemconfigs", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.metadata.generation}\n{end}") +
			get(seed, "-n", controlPlane, "deployment", "kube-apiserver", "-o", "jsonpath={.metadata.generation}") +
			get(shoot, "nodes", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	before := unchanged()
	reconcileNow(t, name)
	tagged()
	if now := unchanged(); now != before {
		t.Errorf("another operation has changed generations of objects, or nodes:\n%s\nis now\n%s", before, now)
	}

	// The extension stays as long as it is used.
	kubectl(t, garden, "delete", "controllerregistration", "tagger", "--wait=false")
	required := func() string {
		return get(garden, "controllerinstallation", "tagger-local-1", "-o",
			`jsonpath={range .status.conditions[?(@.type=="Required")]}{.status} {.message}{end}`)
	}
	eventually(t, "the extension is required", func() error {
		if got := required(); !strings.HasPrefix(got, "True ") || !strings.Contains(got, controlPlane+"/tagged") {
			return fmt.Errorf("condition Required is %q", got)
		}
		return nil
	})
	if got := tagOf(t, shoot, "second"); got != "true" {
		t.Errorf("after the registration was deleted, a pod of the Shoot has the label tagged=%q", got)
	}

	patchShoot(t, name, `{"spec":{"extensions":null}}`)
	if got := get(seed, "-n", controlPlane, "deployment", "kube-apiserver", "-o", serverTag); got != "" {
		t.Errorf("without the extension the API server has TAGGER=%q", got)
	}
	if got := tagOf(t, shoot, "third"); got != "" {
		t.Errorf("without the extension a pod of the Shoot has the label tagged=%q", got)
	}
	eventually(t, "the file is gone from the node", func() error {
		if fileOnNode(t, shoot, "first") == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	eventually(t, "nothing of the extension is left", func() error {
		const inSeed = "namespaces,clusterroles,clusterrolebindings,mutatingwebhookconfigurations"
		all := get(garden, "controllerregistrations,controllerinstallations", "-o", "name") + "\n" +
			get(seed, inSeed, "-o", "name")
		if left := regexp.MustCompile(`\S*tagger\S*`).FindAllString(all, -1); left != nil {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// seedUsesTheExtension: a Seed that names the extension has it, follows changes, and is without it afterwards. No Shoot
// uses it meanwhile.
func seedUsesTheExtension(t *testing.T, garden, seed string) {
	t.Helper()
	use := func(extensions string) {
		t.Helper()
		kubectl(t, garden, "patch", "seed", "local-1", "--type=merge", "-p", `{"spec":{"extensions":`+extensions+`}}`)
	}
	t.Cleanup(func() { use("null") })
	for _, greeting := range []string{"hello", "goodbye"} {
		config := fmt.Sprintf(`{"greeting":%q}`, greeting)
		use(`[{"type":"tagged","providerConfig":` + config + `}]`)
		eventually(t, "the extension of the Seed is there", func() error {
			shown, err := kubectlE(t, seed, "-n", "garden", "get", "configmap", "tagged", "-o",
				"jsonpath={.data.providerConfig}")
			if err != nil || shown != config {
				return fmt.Errorf("the ConfigMap shows %q: %v", shown, err)
			}
			if got := kubectl(t, seed, "-n", "garden", "get", "extensions.extensions.gardener.cloud", "tagged", "-o",
				"jsonpath={.spec.class} {.status.lastOperation.state}"); got != "seed Succeeded" {
				return fmt.Errorf("the Extension is %q", got)
			}
			return nil
		})
	}
	use("null")
	eventually(t, "the Seed is without the extension", func() error {
		left := kubectl(t, seed, "-n", "garden", "get", "extensions.extensions.gardener.cloud,configmaps", "-o", "name") +
			kubectl(t, garden, "get", "controllerinstallations", "-o", "name")
		if found := regexp.MustCompile(`\S*(tagged|tagger)\S*`).FindAllString(left, -1); found != nil {
			return fmt.Errorf("there are %v", found)
		}
		return nil
	})
}

// installTagger builds the extension of test/tagger and registers it.
func installTagger(t *testing.T) {
	t.Helper()
	garden := kubeconfigOf("garden")
	out, err := typeIn(t, `CGO_ENABLED=0 go build -tags grpcnotrace -buildvcs=false -trimpath -o .build/tagger ./test/tagger`)
	t.Cleanup(func() { _ = os.Remove(filepath.Join(repository, ".build", "tagger")) })
	if err != nil {
		t.Fatalf("build the extension: %v\n%s", err, out)
	}
	image := strings.TrimSpace(hortus(t, "images", "add", "example.com/tagger:0.1.0", ".build/tagger"))
	archive, err := chart.Archive(os.DirFS("testdata"), "tagger", "tagger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, garden, "delete", "--ignore-not-found", "--wait=false", "controllerregistration,controllerdeployment",
			"tagger")
	})
	if out, err := applyText(t, garden,
		fmt.Sprintf(taggerRegistration, base64.StdEncoding.EncodeToString(archive), image)); err != nil {
		t.Fatalf("register the extension: %v\n%s", err, out)
	}
}

// tagOf creates a pod in the Shoot and returns the label that the webhook gives it.
func tagOf(t *testing.T, shoot, pod string) string {
	t.Helper()
	var out string
	eventually(t, "a pod of the Shoot is created", func() error { // The ServiceAccount of the namespace takes a moment.
		var err error
		out, err = applyText(t, shoot, fmt.Sprintf(taggedPod, pod))
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return kubectl(t, shoot, "get", "pod", pod, "-o", "jsonpath={.metadata.labels.tagged}")
}

// fileOnNode returns why the file of the extension is not on the node of a pod.
func fileOnNode(t *testing.T, shoot, pod string) error {
	t.Helper()
	out, err := kubectlE(t, shoot, "exec", pod, "--", "cat", "/node/tagger/tag")
	if err == nil && out != "tagged\n" {
		err = fmt.Errorf("it has %q", out)
	}
	return err
}

// podsOfExtensionsAreCompleted: a pod that an extension deploys into the Shoot gets what the contract promises, and one
// of a user does not.
func podsOfExtensionsAreCompleted(t *testing.T, seed, shoot, controlPlane string) {
	t.Helper()
	if out, err := applyText(t, seed, fmt.Sprintf(agentResource, controlPlane)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	agent := []string{"-n", "kube-system", "get", "deployment", "agent", "--ignore-not-found"}
	eventually(t, "the program of the extension runs", func() error {
		if got := kubectl(t, shoot, append(agent, "-o", "jsonpath={.status.readyReplicas}")...); got != "1" {
			return fmt.Errorf("%q replicas are ready", got)
		}
		return nil
	})
	const server = `spec.containers[0].env[?(@.name=="KUBERNETES_SERVICE_HOST")].value`
	in := func(label, path string) string {
		return kubectl(t, shoot, "-n", "kube-system", "get", "pods", "-l", label, "-o", "jsonpath={.items[0]."+path+"}")
	}
	for path, want := range map[string]string{
		"spec.volumes[*].projected.sources[*].serviceAccountToken.path": "token",
		"spec.securityContext.seccompProfile.type":                      "RuntimeDefault",
		`spec.nodeSelector.worker\.gardener\.cloud/system-components`:   "true",
		server: in("k8s-app=kube-dns", server),
	} {
		if got := in("app=agent", path); got != want || want == "" {
			t.Errorf("%s of the pod of an extension is %q, want %q", path, got, want)
		}
		ofUser := kubectl(t, shoot, "get", "pod", "first", "-o", "jsonpath={."+path+"}")
		if want != "token" && ofUser != "" { // Kubernetes mounts the token of the namespace's ServiceAccount.
			t.Errorf("%s of the pod of a user is %q", path, ofUser)
		}
	}
	const revision = `{.metadata.labels.pod-template-hash}`
	const spread = `{.spec.topologySpreadConstraints[0].labelSelector.matchLabels.pod-template-hash}`
	if got := strings.Fields(kubectl(t, shoot, "-n", "kube-system", "get", "pods", "-l", "app=agent", "-o",
		`jsonpath={range .items[*]}`+revision+" "+spread+"{end}")); len(got) != 2 || got[0] != got[1] {
		t.Errorf("revision of the pod, and the one it is spread among: %q", got)
	}
	kubectl(t, seed, "-n", controlPlane, "delete", "managedresource,secret", "agent")
	if got := kubectl(t, shoot, append(agent, "-o", "name")...); got != "" {
		t.Errorf("without its ManagedResource there is still %s", got)
	}
}

// onlyOfferedWebhooksAreReached: the owner of the Shoot cannot make its API server call Services that do not offer
// webhooks to it.
func onlyOfferedWebhooksAreReached(t *testing.T, shoot, namespace string) {
	t.Helper()
	for id, url := range map[string]string{
		"other-service":   "https://tagger-health." + namespace + ".svc:443/",
		"other-port":      "https://tagger." + namespace + ".svc:10250/webhooks/shoot",
		"other-extension": "https://provider-local.extension-provider-local-local-1.svc:443/",
		"of-the-seed":     "https://gardener-resource-manager.garden.svc:443/",
	} {
		if out, err := applyText(t, shoot, fmt.Sprintf(prober, id, url)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		manifest := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: probe-, namespace: default, labels: {probe: %s}}\n", id)
		file := filepath.Join(t.TempDir(), "probe.yaml")
		if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the API server calls "+url, func() error {
			out, err := kubectlE(t, shoot, "create", "--dry-run=server", "-f", file)
			if err == nil {
				return fmt.Errorf("the webhook is not called yet: %s", out)
			}
			if !strings.Contains(out, "403 Forbidden") {
				return fmt.Errorf("%s is not refused: %s", url, out)
			}
			return nil
		})
		kubectl(t, shoot, "delete", "validatingwebhookconfiguration", id)
	}
}
