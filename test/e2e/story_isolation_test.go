//go:build landscape

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// target is an address that no tenant may reach.
type target struct {
	id, what, address string // host:port.
}

func (g target) host() string { host, _, _ := net.SplitHostPort(g.address); return host }

func (g target) port() string { _, port, _ := net.SplitHostPort(g.address); return port }

// way is a method by which a tenant makes its API server connect to an address. It returns the response of the API
// server.
type way struct {
	name string
	try  func(t *testing.T, kubeconfig string, g target) (string, error)
}

// canary runs in a namespace of the seed that no policy protects: only the restrictions of API servers keep them from
// it.
const canary = `apiVersion: v1
kind: Pod
metadata: {name: canary, namespace: default, labels: {app: canary}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: echo, image: "hortus.dev/echo:1.0.0", args: [serve, --port, "8080"]}
---
apiVersion: v1
kind: Service
metadata: {name: canary, namespace: default}
spec:
  type: NodePort
  selector: {app: canary}
  ports: [{port: 80, targetPort: 8080}]
`

// TestTenantsReachNothingElse has the owners of two Shoots try all methods by which an API server can be made to
// connect to an address: none of the seed, of another tenant, of the garden and of the cloud may be reachable. The
// Shoot's own addresses and public ones are.
func TestTenantsReachNothingElse(t *testing.T) {
	story(t, firstSeed)
	const nodeless, noded = "intruder", "burglar"
	seed := adminOf("local-1")
	if out, err := applyText(t, seed, canary); err != nil {
		t.Fatalf("make the canary: %v\n%s", err, out)
	}
	t.Cleanup(func() { kubectl(t, seed, "delete", "--wait=false", "pod/canary", "service/canary") })
	var made sync.WaitGroup
	for name, file := range map[string]string{nodeless: "shoot-workerless.yaml", noded: "shoot.yaml"} {
		made.Go(func() { newShoot(t, file, name) })
	}
	made.Wait()
	metricsStayInside(t, seed, noded)
	memoryIsBounded(t, seed, noded)
	kubectl(t, seed, "wait", "--for=condition=Ready", "pod/canary", withPatience)

	targets := forbidden(t, seed, noded)
	for _, shoot := range []string{nodeless, noded} {
		before := refusals(t, seed, shoot)
		invade(t, shootKubeconfig(t, shoot), shoot, targets)
		byConfiguration(t, shoot, targets)
		if after := refusals(t, seed, shoot); after < before+len(targets) {
			t.Errorf("%s: the tunnel server has counted %d refusals, want more than %d", shoot, after-before, len(targets))
		} else {
			t.Logf("%s: %d refusals are counted", shoot, after-before)
		}
	}
	if log := kubectl(t, seed, "logs", "canary"); strings.Contains(log, "connection from") {
		t.Errorf("the canary has been reached:\n%s", log)
	}

	allowed(t, shootKubeconfig(t, nodeless), shootKubeconfig(t, noded))
}

// memoryIsBounded: all containers whose memory depends on a tenant have a request for memory, and a limit above which
// they are killed.
func memoryIsBounded(t *testing.T, seed, shoot string) {
	t.Helper()
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(kubectl(t, seed, "-n", "shoot--dev--"+shoot, "get", "pods", "-o", "json")),
		&pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) < 8 {
		t.Errorf("the control plane has only %d pods", len(pods.Items))
	}
	for _, pod := range pods.Items {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("container %s of pod %s has no request or limit of memory: %+v", c.Name, pod.Name, c.Resources)
			}
			if limit := c.Resources.Limits.Memory().String(); c.Name == "kube-apiserver" && limit != "8Gi" {
				t.Errorf("the API server of a small Shoot has a limit of %s, want 8Gi", limit)
			}
		}
	}
}

// forbidden are the addresses that must not be reachable. The Shoot stands for another tenant.
func forbidden(t *testing.T, seed, shoot string) []target {
	t.Helper()
	get := func(args ...string) string {
		return strings.TrimSpace(kubectl(t, seed, append([]string{"get"}, args...)...))
	}
	namespace := "shoot--dev--" + shoot
	nodePort := get("service/canary", "-o", "jsonpath={.spec.ports[0].nodePort}")
	node := get("pod/canary", "-o", "jsonpath={.status.hostIP}")
	targets := []target{
		{what: "a pod of the seed", address: net.JoinHostPort(get("pod/canary", "-o", "jsonpath={.status.podIP}"), "8080")},
		{what: "a Service of the seed",
			address: net.JoinHostPort(get("service/canary", "-o", "jsonpath={.spec.clusterIP}"), "80")},
		{what: "a port of a node of the seed", address: net.JoinHostPort(node, nodePort)},
		{what: "the API server of the seed", address: net.JoinHostPort(node, "6443")},
		{what: "the health checks of another tenant's etcd",
			address: net.JoinHostPort(get("-n", namespace, "pod/etcd-main-0", "-o", "jsonpath={.status.podIP}"), "2383")},
		{what: "the Service of another tenant's etcd",
			address: net.JoinHostPort(get("-n", namespace, "service/etcd-main", "-o", "jsonpath={.spec.clusterIP}"), "2379")},
		{what: "the garden", address: "198.18.8.1:443"},
		{what: "the cloud's API", address: "198.18.0.1:7443"},
		{what: "the metadata service", address: "169.254.169.254:80"},
		{what: "the process itself", address: "127.0.0.1:8080"},
	}
	for i := range targets {
		targets[i].id = "evil-" + strconv.Itoa(i)
	}
	return targets
}

// outcome of an attempt.
type outcome struct{ reached, refused bool }

// refusedPattern matches the messages of API servers when a component on the way has refused the connection, or when an
// object with the address was rejected.
var refusedPattern = regexp.MustCompile(`403 Forbidden|address not allowed|no endpoints available|services "evil-\d+" not found|currently unable to handle`)

// failedPattern matches their messages when nothing has answered.
var failedPattern = regexp.MustCompile(`no route to host|i/o timeout|context deadline exceeded|connection refused|504 Gateway Timeout|502 Bad Gateway|network is unreachable`)

func judge(out string, err error) outcome {
	text := out
	if err != nil {
		text += err.Error()
	}
	refused := refusedPattern.MatchString(text)
	return outcome{reached: !refused && !failedPattern.MatchString(text), refused: refused}
}

// invade tries all methods with all targets.
func invade(t *testing.T, kubeconfig, shoot string, targets []target) {
	t.Helper()
	for _, g := range targets {
		prepareTarget(t, kubeconfig, g)
	}
	var wg sync.WaitGroup
	for _, g := range targets {
		wg.Go(func() {
			for _, w := range ways {
				out, err := w.try(t, kubeconfig, g)
				if o := judge(out, err); o.reached {
					t.Errorf("%s reaches %s (%s) by %s: %v\n%s", shoot, g.what, g.address, w.name, err, out)
				} else if !o.refused {
					t.Logf("%s: nothing answers for %s by %s: %.300s", shoot, g.what, w.name, out)
				}
			}
		})
	}
	wg.Wait()
	removeTargets(t, kubeconfig)
}

// removeTargets removes the objects again: components of the system would wait for nodes that do not exist, and a
// deletion for their pods.
func removeTargets(t *testing.T, kubeconfig string) {
	t.Helper()
	kubectl(t, kubeconfig, "delete", "apiservices,validatingwebhookconfigurations,crd,nodes", "-l", "by=tenant",
		"--wait=false")
	kubectl(t, kubeconfig, "delete", "pods", "-l", "by=tenant", "--force", "--wait=false")
}

// prepareTarget creates the objects through which the API server calls the target. Kubernetes itself rejects Endpoints
// with some addresses.
func prepareTarget(t *testing.T, kubeconfig string, g target) {
	t.Helper()
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {by: tenant}}
---
apiVersion: v1
kind: Node
metadata: {name: %[1]s-plain, labels: {by: tenant}}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec: {ports: [{port: %[3]s}]}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, labels: {by: tenant}}
spec:
  nodeName: %[1]s
  containers: [{name: c, image: none}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s, labels: {by: tenant}}
webhooks:
- name: url.example.com
  clientConfig: {url: "https://%[2]s:%[3]s/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  objectSelector: {matchLabels: {by: %[1]s-url}}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 5
- name: service.example.com
  clientConfig: {service: {namespace: default, name: %[1]s, port: %[3]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  objectSelector: {matchLabels: {by: %[1]s-service}}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 5
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.%[1]s.example.com, labels: {by: tenant}}
spec:
  group: %[1]s.example.com
  version: v1
  groupPriorityMinimum: 1
  versionPriority: 1
  insecureSkipTLSVerify: true
  service: {namespace: default, name: %[1]s, port: %[3]s}
`, g.id, g.host(), g.port())
	for _, conversion := range []string{"url", "service"} {
		client := fmt.Sprintf("{url: \"https://%s:%s/\"}", g.host(), g.port())
		if conversion == "service" {
			client = fmt.Sprintf("{service: {namespace: default, name: %s, port: %s}}", g.id, g.port())
		}
		manifest += fmt.Sprintf(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s-%[2]s.example.net, labels: {by: tenant}}
spec:
  group: %[1]s-%[2]s.example.net
  names: {kind: Thing, plural: things}
  scope: Cluster
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: %[3]s}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`, g.id, conversion, client)
	}
	if out, err := applyText(t, kubeconfig, manifest); err != nil {
		t.Fatalf("prepare %s: %v\n%s", g.what, err, out)
	}
	kubectl(t, kubeconfig, "patch", "node", g.id, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`,
		g.host(), g.port()))
	// The API server always uses HTTPS for the port of a kubelet.
	kubectl(t, kubeconfig, "patch", "node", g.id+"-plain", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, g.host()))
	kubectl(t, kubeconfig, "patch", "pod", g.id, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"phase":"Running","podIP":%[1]q,"podIPs":[{"ip":%[1]q}],"hostIP":%[1]q,"hostIPs":[{"ip":%[1]q}]}}`,
		g.host()))
	out, err := applyText(t, kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Endpoints
metadata: {name: %[1]s, namespace: default}
subsets: [{addresses: [{ip: %[2]s, targetRef: {kind: Pod, name: %[1]s, namespace: default}}], ports: [{port: %[3]s}]}]
`, g.id, g.host(), g.port()))
	if err != nil && !strings.Contains(out, "may not be in the") {
		t.Fatalf("make Endpoints for %s: %v\n%s", g.what, err, out)
	}
}

func raw(path string) func(*testing.T, string, target) (string, error) {
	return func(t *testing.T, kubeconfig string, g target) (string, error) {
		replaced := strings.NewReplacer("ID", g.id, "PORT", g.port()).Replace(path)
		return kubectlE(t, kubeconfig, "get", "--raw", replaced)
	}
}

func command(args ...string) func(*testing.T, string, target) (string, error) {
	return func(t *testing.T, kubeconfig string, g target) (string, error) {
		filled := slices.Clone(args)
		for i := range filled {
			filled[i] = strings.ReplaceAll(filled[i], "ID", g.id)
		}
		return kubectlE(t, kubeconfig, filled...)
	}
}

// review creates a ConfigMap that a webhook reviews.
func review(webhook string) func(*testing.T, string, target) (string, error) {
	return func(t *testing.T, kubeconfig string, g target) (string, error) {
		return applyText(t, kubeconfig,
			fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s-%[2]s, namespace: default, labels: {by: %[1]s-%[2]s}}\n", g.id, webhook))
	}
}

// convert reads an object in a version that requires a conversion.
func convert(webhook string) func(*testing.T, string, target) (string, error) {
	return func(t *testing.T, kubeconfig string, g target) (string, error) {
		group := g.id + "-" + webhook + ".example.net"
		eventually(t, "objects of "+group+" can be made", func() error {
			out, err := applyText(t, kubeconfig, "apiVersion: "+group+"/v1\nkind: Thing\nmetadata: {name: thing}\n")
			if err != nil && strings.Contains(out, "no matches for kind") {
				return errors.New(out)
			}
			return nil
		})
		return served(t, kubeconfig, "/apis/"+group+"/v2/things/thing")
	}
}

// aggregated reads an aggregated API.
func aggregated(t *testing.T, kubeconfig string, g target) (string, error) {
	return served(t, kubeconfig, "/apis/"+g.id+".example.com/v1")
}

// served reads a path as soon as the API server knows the service behind it.
func served(t *testing.T, kubeconfig, path string) (out string, err error) {
	eventually(t, path+" is known", func() error {
		if out, err = kubectlE(t, kubeconfig, "get", "--raw", path); err != nil &&
			strings.Contains(out, "could not find the requested resource") {
			return errors.New(out)
		}
		return nil
	})
	return out, err
}

var ways = []way{
	{"nodes/proxy over HTTP", raw("/api/v1/nodes/http:ID-plain:PORT/proxy/metrics")},
	{"nodes/proxy over HTTPS", raw("/api/v1/nodes/https:ID:PORT/proxy/metrics")},
	{"nodes/proxy to the kubelet", raw("/api/v1/nodes/ID/proxy/metrics")},
	{"pods/proxy", raw("/api/v1/namespaces/default/pods/http:ID:PORT/proxy/metrics")},
	{"services/proxy", raw("/api/v1/namespaces/default/services/http:ID:PORT/proxy/metrics")},
	{"pods/log", command("logs", "ID")},
	{"pods/exec", command("exec", "ID", "--", "true")},
	{"pods/portforward", command("port-forward", "--pod-running-timeout=1s", "pod/ID", ":1")},
	{"a webhook with a URL", review("url")},
	{"a webhook with a Service", review("service")},
	{"conversion with a URL", convert("url")},
	{"conversion with a Service", convert("service")},
	{"an aggregated API", aggregated},
}

// byConfiguration has the API server use all targets for authentication and authorization.
func byConfiguration(t *testing.T, shoot string, targets []target) {
	t.Helper()
	garden := kubeconfigOf("garden")
	var issuers, authorizers, kubeconfigs, resources strings.Builder
	for _, g := range targets {
		fmt.Fprintf(&issuers,
			"    - issuer: {url: \"https://%s\", audiences: [a]}\n      claimMappings: {username: {claim: sub, prefix: \"x:\"}}\n", g.address)
		fmt.Fprintf(&authorizers,
			"    - {type: Webhook, name: %s, webhook: {timeout: 3s, failurePolicy: NoOpinion, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1}}\n", g.id)
		fmt.Fprintf(&kubeconfigs, `---
apiVersion: v1
kind: Secret
metadata: {name: %[1]s-%[2]s, namespace: garden-dev}
stringData:
  kubeconfig: |
    apiVersion: v1
    kind: Config
    clusters: [{name: c, cluster: {server: "https://%[3]s", insecure-skip-tls-verify: true}}]
    users: [{name: u, user: {token: x}}]
    contexts: [{name: x, context: {cluster: c, user: u}}]
    current-context: x
`, shoot, g.id, g.address)
		fmt.Fprintf(&resources, "{\"authorizerName\":%q,\"secretName\":\"%s-%s\"},", g.id, shoot, g.id)
	}
	manifest := fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s-authentication, namespace: garden-dev}
data:
  config.yaml: |
    apiVersion: apiserver.config.k8s.io/v1beta1
    kind: AuthenticationConfiguration
    jwt:
%[2]s---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s-authorization, namespace: garden-dev}
data:
  config.yaml: |
    apiVersion: apiserver.config.k8s.io/v1
    kind: AuthorizationConfiguration
    authorizers:
%[3]s%[4]s`, shoot, issuers.String(), authorizers.String(), kubeconfigs.String())
	if out, err := applyText(t, garden, manifest); err != nil {
		t.Fatalf("make the files of %s: %v\n%s", shoot, err, out)
	}
	patchShoot(t, shoot, fmt.Sprintf(`{"spec":{"kubernetes":{"kubeAPIServer":{
		"structuredAuthentication":{"configMapName":"%[1]s-authentication"},
		"structuredAuthorization":{"configMapName":"%[1]s-authorization","kubeconfigs":[%[2]s]}}}}}`, shoot, strings.TrimSuffix(resources.String(), ",")))
	// The user is not in system:masters, so all webhooks are called.
	out, err := kubectlE(t, shootKubeconfig(t, shoot), "--as=somebody", "get", "configmaps")
	if err == nil || strings.Count(out, "403 Forbidden") < len(targets) {
		t.Errorf("%s: of %d authorization webhooks not all were refused: %v\n%s", shoot, len(targets), err, out)
	}
}

// allowed checks that API servers reach everything else: the pods of the Shoot, and public addresses.
func allowed(t *testing.T, nodeless, noded string) {
	t.Helper()
	if out, err := applyText(t, noded, example(t, "workload.yaml")); err != nil {
		t.Fatalf("apply the workload: %v\n%s", err, out)
	}
	kubectl(t, noded, "patch", "service", "echo", "-p", `{"spec":{"type":"LoadBalancer"}}`)
	kubectl(t, noded, "rollout", "status", "deployment/echo", withPatience)
	address := publicAddress(t, noded, "echo")
	for _, path := range []string{"services/http:echo:80", "pods/http:" + firstPod(t, noded) + ":8080"} {
		eventually(t, path+" answers through the tunnel", func() error {
			if out, err := kubectlE(t, noded, "get", "--raw", "/api/v1/namespaces/default/"+path+"/proxy/hello"); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return nil
		})
	}
	outside := target{id: "outside", what: "a public address", address: net.JoinHostPort(address, "80")}
	prepareTarget(t, nodeless, outside)
	eventually(t, "a Shoot without nodes reaches a public address", func() error {
		if out, err := ways[0].try(t, nodeless, outside); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	removeTargets(t, nodeless)
}

// metricsStayInside requests the metrics of a control plane's pods through the seed's API server, which reaches the
// pods.
func metricsStayInside(t *testing.T, seed, shoot string) {
	t.Helper()
	namespace := "shoot--dev--" + shoot
	for app, ports := range map[string][]string{
		"etcd-main": {"2381", "2383"}, "vpn-seed-server": {"8080", "8081"}, "gardener-resource-manager": {"8080", "8081"},
		"machine-controller-manager": {"8080", "8081", "10258", "10259"},
	} {
		pod := kubectl(t, seed, "-n", namespace, "get", "pods", "-l", "app="+app, "-o", "jsonpath={.items[0].metadata.name}")
		proxy := func(port, path string) (string, error) {
			return kubectlE(t, seed, "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":"+port+"/proxy/"+path)
		}
		if out, err := proxy("8080", "healthz"); app == "vpn-seed-server" && (err != nil || out != "ok") {
			t.Errorf("%s: health checks do not answer: %v\n%s", app, err, out)
		}
		for _, port := range ports {
			if out, err := proxy(port, "metrics"); err == nil {
				t.Errorf("%s: port %s answers with metrics: %.200s", app, port, out)
			}
		}
	}
}

func firstPod(t *testing.T, kubeconfig string) string {
	t.Helper()
	return kubectl(t, kubeconfig, "get", "pods", "-l", "app=echo", "-o", "jsonpath={.items[0].metadata.name}")
}

// refusals is the number of connections that the tunnel server of a Shoot has refused.
func refusals(t *testing.T, seed, shoot string) int {
	t.Helper()
	namespace := "shoot--dev--" + shoot
	pod := kubectl(t, seed, "-n", namespace, "get", "pods", "-l", "app=vpn-seed-server", "-o",
		"jsonpath={.items[0].metadata.name}")
	var metrics string
	forward(t, seed, namespace, "pod/"+pod, "8081", func(url string) { metrics = answer(t, url+"/metrics") })
	return counted(t, metrics, func(line string) bool {
		return strings.HasPrefix(line, "hortus_tunnel_server_egress_connections_total{") &&
			strings.Contains(line, `result="refused_`) ||
			strings.HasPrefix(line, "hortus_tunnel_server_requests_total{") && strings.Contains(line, `code="403"`)
	})
}
