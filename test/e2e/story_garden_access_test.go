//go:build landscape

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/client-go/tools/clientcmd"

	"hortus.dev/hortus/internal/chart"
)

// visitorChart is an extension that waits for commands. Its author has not thought of the garden, but for the CA.
const visitorChart = `apiVersion: v1
kind: ConfigMap
metadata: {name: garden-ca, namespace: {{ .Release.Namespace }}}
data: {ca.crt: {{ .Values.ca | quote }}, greeting: {{ .Values.greeting | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: visitor, namespace: {{ .Release.Namespace }}}
spec:
  selector:
    matchLabels: {app: visitor}
  template:
    metadata:
      labels: {app: visitor}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      containers:
      - name: echo
        image: hortus.dev/echo:1.0.0
        args: [serve, --port, "8080"]
        env:
        - {name: SSL_CERT_FILE, value: /garden-ca/ca.crt}
        volumeMounts:
        - {name: garden-ca, mountPath: /garden-ca}
      volumes:
      - name: garden-ca
        configMap: {name: garden-ca}
`

const visitorRegistration = `apiVersion: v1
kind: ConfigMap
metadata: {name: visitor, namespace: garden}
data: {crt: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: visitor, namespace: garden}
stringData: {word: open sesame}
---
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: visitor}
injectGardenKubeconfig: true
resources:
- {name: ca, resourceRef: {apiVersion: v1, kind: ConfigMap, name: visitor}}
- {name: login, resourceRef: {apiVersion: v1, kind: Secret, name: visitor}}
helm:
  rawChart: %s
  values: {ca: "{{ .resources.ca.data.crt }}", greeting: "say {{ .resources.login.data.word }}"}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata: {name: visitor}
spec:
  deployment:
    deploymentRefs: [{name: visitor}]
    policy: Always
`

// visitor is the extension in one seed.
type visitor struct {
	seed, namespace, admin string
	// server is the garden's URL in the extension's kubeconfig, tokenFile the file with its token.
	server, tokenFile string
}

// TestExtensionsReachTheGarden installs an extension with access to the garden in both seeds, whose chart has values
// from other objects: its pods read their own Seed, and neither Shoots of the other seed nor Secrets; nobody else gets
// their tokens; these are renewed on request; their ServiceAccounts end with the extension.
func TestExtensionsReachTheGarden(t *testing.T) {
	story(t, bothSeeds)
	garden := kubeconfigOf("garden")
	t.Cleanup(func() {
		kubectl(t, garden, "delete", "--ignore-not-found", "controllerregistration,controllerdeployment", "visitor")
		kubectl(t, garden, "-n", "garden", "delete", "--ignore-not-found", "secret,configmap", "visitor")
	})
	if out, err := applyText(t, garden, visitorManifest(t, garden)); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	visitors := map[string]*visitor{}
	for _, seed := range []string{"local-1", "local-2"} {
		visitors[seed] = newVisitor(t, seed)
	}
	for seed, other := range map[string]string{"local-1": "local-2", "local-2": "local-1"} {
		visitors[seed].reads(t, other)
	}

	step(t, "others request its tokens in vain", visitors["local-1"].keepsItsTokens)
	step(t, "tokens are renewed on request", func(t *testing.T) {
		v := visitors["local-2"]
		before := v.token(t)
		kubectl(t, garden, "annotate", "seed", v.seed, "gardener.cloud/operation=renew-garden-access-secrets")
		eventually(t, "another token, and an end of the operation", func() error {
			operation := kubectl(t, garden, "get", "seed", v.seed, "-o",
				`jsonpath={.metadata.annotations.gardener\.cloud/operation}`)
			if now := v.token(t); now == "" || now == before || operation != "" {
				return fmt.Errorf("operation %q, a token: %t, another one: %t", operation, now != "", now != before)
			}
			return nil
		})
	})

	kubectl(t, garden, "delete", "controllerregistration", "visitor")
	eventually(t, "nothing of the extension is left", func() error {
		for seed, v := range visitors {
			left := kubectl(t, v.admin, "get", "namespace", v.namespace, "--ignore-not-found", "-o", "name") +
				kubectl(t, garden, "-n", "seed-"+seed, "get", "serviceaccount", v.namespace, v.namespace+".more",
					"--ignore-not-found", "-o", "name")
			if left != "" {
				return fmt.Errorf("for %s there is %s", seed, left)
			}
		}
		return nil
	})
}

func visitorManifest(t *testing.T, garden string) string {
	t.Helper()
	archive, err := chart.Archive(fstest.MapFS{
		"visitor/Chart.yaml":             {Data: []byte("apiVersion: v2\nname: visitor\nversion: 0.1.0\n")},
		"visitor/templates/visitor.yaml": {Data: []byte(visitorChart)},
	}, "visitor", "visitor")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", garden)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal(string(config.CAData))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(visitorRegistration, ca, base64.StdEncoding.EncodeToString(archive))
}

// newVisitor waits for the extension in a seed and reads the kubeconfig that its pods have.
func newVisitor(t *testing.T, seed string) *visitor {
	t.Helper()
	v := &visitor{seed: seed, namespace: "extension-visitor-" + seed, admin: adminOf(seed)}
	eventually(t, "the extension in "+seed, func() error {
		out, err := kubectlE(t, v.admin, "-n", v.namespace, "rollout", "status", "deployment/visitor", "--timeout=5s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	greeting := kubectl(t, v.admin, "-n", v.namespace, "get", "configmap", "garden-ca", "-o", "jsonpath={.data.greeting}")
	if want := "say open sesame"; greeting != want {
		t.Errorf("the chart's value from a Secret is %q, want %q", greeting, want)
	}
	secret := kubectl(t, v.admin, "-n", v.namespace, "get", "deployment", "visitor", "-o",
		`jsonpath={.spec.template.spec.volumes[?(@.name=="garden-kubeconfig")].projected.sources[0].secret.name}`)
	encoded := kubectl(t, v.admin, "-n", v.namespace, "get", "secret", secret, "-o", "jsonpath={.data.kubeconfig}")
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	current := config.Contexts[config.CurrentContext]
	v.server, v.tokenFile = config.Clusters[current.Cluster].Server, config.AuthInfos[current.AuthInfo].TokenFile
	env := kubectl(t, v.admin, "-n", v.namespace, "get", "deployment", "visitor", "-o",
		`jsonpath={.spec.template.spec.containers[0].env[?(@.name=="GARDEN_KUBECONFIG")].value}`)
	if want := strings.TrimSuffix(v.tokenFile, "token") + "kubeconfig"; env != want {
		t.Errorf("GARDEN_KUBECONFIG is %q, want %q", env, want)
	}
	return v
}

// get sends a request to the garden from the pod.
func (v *visitor) get(t *testing.T, path string) (string, error) {
	t.Helper()
	return kubectlE(t, v.admin, "-n", v.namespace, "exec", "deployment/visitor", "--", "/echo", "get", "--token-file",
		v.tokenFile, v.server+path)
}

func (v *visitor) token(t *testing.T) string {
	t.Helper()
	return v.tokenIn(t, v.namespace, "garden-access-extension")
}

func (v *visitor) tokenIn(t *testing.T, namespace, secret string) string {
	t.Helper()
	return kubectl(t, v.admin, "-n", namespace, "get", "secret", secret, "--ignore-not-found", "-o",
		"jsonpath={.data.token}")
}

// requests creates a Secret that requests a token of the garden.
func (v *visitor) requests(t *testing.T, namespace, account string) (string, error) {
	t.Helper()
	return applyText(t, v.admin, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata:
  name: garden-access-more
  namespace: %s
  labels: {resources.gardener.cloud/purpose: token-requestor, resources.gardener.cloud/class: garden}
  annotations: {serviceaccount.resources.gardener.cloud/name: %s}
`, namespace, account))
}

// keepsItsTokens checks that the extension gets more tokens, and that nobody gets those of its ServiceAccount: not a
// namespace that looks like that of an extension, another extension, or the control plane of a Shoot.
func (v *visitor) keepsItsTokens(t *testing.T) {
	const impostor = "extension-impostor"
	others := []string{impostor, "extension-provider-local-" + v.seed}
	others = append(others, strings.Fields(kubectl(t, v.admin, "get", "namespaces", "-l", "gardener.cloud/role=shoot",
		"-o", "jsonpath={.items[*].metadata.name}"))...)
	t.Cleanup(func() {
		for _, namespace := range others[1:] {
			kubectl(t, v.admin, "-n", namespace, "delete", "--ignore-not-found", "secret", "garden-access-more")
		}
		kubectl(t, v.admin, "delete", "--ignore-not-found", "--wait=false", "namespace", impostor)
	})
	kubectl(t, v.admin, "create", "namespace", impostor)
	kubectl(t, v.admin, "label", "namespace", impostor, "gardener.cloud/role=extension",
		"controllerregistration.core.gardener.cloud/name=visitor")
	for i, namespace := range others {
		// Shoots of other stories may be in deletion.
		if out, err := v.requests(t, namespace, v.namespace); err != nil && i < 2 {
			t.Fatalf("request a token in %s: %v\n%s", namespace, err, out)
		}
	}
	if out, err := v.requests(t, v.namespace, v.namespace+".more"); err != nil {
		t.Fatalf("request another token: %v\n%s", err, out)
	}
	eventually(t, "another token of the extension's own", func() error {
		if v.tokenIn(t, v.namespace, "garden-access-more") == "" {
			return errors.New("there is none")
		}
		return nil
	})
	for _, namespace := range others {
		if v.tokenIn(t, namespace, "garden-access-more") != "" {
			t.Errorf("namespace %s has a token of %s", namespace, v.namespace)
		}
	}
}

// reads checks what the extension may read, and what it may not.
func (v *visitor) reads(t *testing.T, other string) {
	t.Helper()
	const core, label = "/apis/core.gardener.cloud/v1beta1", "?labelSelector=name.seed.gardener.cloud/"
	eventually(t, "the extension of "+v.seed+" reads its Seed", func() error {
		out, err := v.get(t, core+"/seeds/"+v.seed)
		if err != nil || !strings.Contains(out, `"name":"`+v.seed+`"`) {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
	if out, err := v.get(t, core+"/shoots"+label+v.seed+"%3Dtrue"); err != nil {
		t.Errorf("the extension of %s may not list its Shoots: %v\n%s", v.seed, err, out)
	}
	for _, path := range []string{
		core + "/shoots" + label + other + "%3Dtrue",
		core + "/shoots",
		core + "/namespaces/" + projectNS + "/internalsecrets/demo.ca-client",
		"/api/v1/secrets",
		"/api/v1/namespaces/garden/secrets/hortus-apiserver",
		"/api/v1/namespaces/seed-" + v.seed + "/secrets",
		"/api/v1/namespaces/seed-" + other + "/serviceaccounts",
	} {
		if out, err := v.get(t, path); err == nil || !refusedByAPI(out) {
			t.Errorf("the extension of %s may get %s: %v\n%s", v.seed, path, err, out)
		}
	}
}
