//go:build landscape

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// TestWaysIntoShoot uses all connections between a Shoot and its API server, in both directions, has a new node wait
// for its critical components, and logs in to nodes.
func TestWaysIntoShoot(t *testing.T) {
	story(t, firstSeed)
	const name = "ways"
	newShoot(t, "shoot.yaml", name)
	kubeconfig, admin := shootKubeconfig(t, name), adminOf("local-1")
	applyTestdata(t, kubeconfig, "inside.yaml", "")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/inside", withPatience)

	step(t, "logs, commands and forwarded ports use the tunnel", func(t *testing.T) {
		eventually(t, "a log", func() error {
			if out := kubectl(t, kubeconfig, "logs", "inside"); !strings.Contains(out, "inside listens on :8080") {
				return fmt.Errorf("the log is %q", out)
			}
			return nil
		})
		out := kubectl(t, kubeconfig, "exec", "inside", "--", "/echo", "get", "http://localhost:8080/hello")
		if !strings.Contains(out, "inside GET /hello") {
			t.Errorf("the pod answers itself %q", out)
		}
		forward(t, kubeconfig, "default", "pod/inside", "8080", func(url string) { answer(t, url) })
	})
	step(t, "pods reach their API server through the gateway of the seed", func(t *testing.T) {
		reachesAPIServer(t, kubeconfig, admin, name)
	})
	step(t, "system components reach their API server by its name", func(t *testing.T) {
		checkDirectAccess(t, kubeconfig, name)
	})
	step(t, "the API server reaches webhooks and APIs that pods serve", func(t *testing.T) { asksPods(t, kubeconfig) })
	var machine *sshMachine
	step(t, "people log in to nodes with keys that rotate",
		func(t *testing.T) { machine = logsInToNode(t, kubeconfig, name) })
	step(t, "members log in to nodes through a bastion",
		func(t *testing.T) { logsInThroughBastion(t, kubeconfig, name) })
	step(t, "a new node waits for its critical components", func(t *testing.T) { waitsForCritical(t, kubeconfig, name) })
	step(t, "a node has the same host key after a reboot", func(t *testing.T) { keepsHostKey(t, machine, name) })
}

// reachesAPIServer has a pod query its API server by each of its names in pods. Only the proxies of the Shoot's nodes
// listen on the address of these names; the gateway counts their connections.
func reachesAPIServer(t *testing.T, kubeconfig, admin, shoot string) {
	t.Helper()
	advertised := kubectl(t, kubeconfig, "get", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes",
		"-o", "jsonpath={.items[*].endpoints[*].addresses[*]}")
	proxied := kubectl(t, admin, "-n", "shoot--dev--"+shoot, "get", "service", "kube-apiserver",
		"-o", `jsonpath={.metadata.annotations.hortus\.dev/proxy-address}`)
	if advertised != proxied || proxied == "" {
		t.Errorf("the API server is advertised at %q, the gateway knows it by %q", advertised, proxied)
	}
	namespace := kubectl(t, kubeconfig, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	before := proxiedConnections(t, admin)
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	names := []string{
		"kubernetes.default", "kubernetes.default.svc.cluster.local", "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
	}
	for _, name := range names {
		request := "exec /echo get --token-file " + token + " https://" + name + "/api/v1/namespaces/kube-system"
		if out := kubectl(t, kubeconfig, "exec", "inside", "--", "sh", "-c", request); !strings.Contains(out, namespace) {
			t.Errorf("%s is not the API server of this Shoot, whose namespace kube-system is %s:\n%s", name, namespace,
				out)
		}
	}
	if after := proxiedConnections(t, admin); after < before+len(names) {
		t.Errorf("the gateway has forwarded %d connections of proxies, want at least %d", after-before, len(names))
	}
}

// checkDirectAccess checks which pods find their API server by its host name, and that they reach it.
func checkDirectAccess(t *testing.T, kubeconfig, shoot string) {
	t.Helper()
	url := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", shoot, "-o",
		`jsonpath={.status.advertisedAddresses[?(@.name=="internal")].url}`)
	want := strings.TrimPrefix(url, "https://")
	if !strings.HasPrefix(want, "api.") {
		t.Fatalf("the internal address of the API server is %q", url)
	}
	const variable = `.spec.containers[*].env[?(@.name=="KUBERNETES_SERVICE_HOST")].value`
	applyTestdata(t, kubeconfig, "direct.yaml", "")
	t.Cleanup(func() {
		if _, err := kubectlE(t, kubeconfig, "delete", "-f", "test/e2e/testdata/direct.yaml"); err != nil {
			t.Logf("delete direct.yaml: %v", err) // The Shoot is deleted anyway.
		}
	})
	for pod, want := range map[string]string{
		"kube-system/direct": want, "kube-system/disabled": "", "kube-system/cluster-dns": "", "default/elsewhere": "",
	} {
		namespace, name, _ := strings.Cut(pod, "/")
		got := kubectl(t, kubeconfig, "-n", namespace, "get", "pod", name, "-o", "jsonpath={"+variable+"}")
		if got != want {
			t.Errorf("pod %s: KUBERNETES_SERVICE_HOST is %q, want %q", pod, got, want)
		}
	}
	kubectl(t, kubeconfig, "-n", "kube-system", "wait", "--for=condition=Ready", "pod/direct", withPatience)
	id := kubectl(t, kubeconfig, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	const request = "exec /echo get --token-file /var/run/secrets/kubernetes.io/serviceaccount/token " +
		"https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/kube-system"
	eventually(t, "an answer of the API server by its name", func() error {
		out, err := kubectlE(t, kubeconfig, "-n", "kube-system", "exec", "direct", "--", "sh", "-c", request)
		if err != nil || !strings.Contains(out, id) {
			return fmt.Errorf("it is not that of this Shoot, whose namespace kube-system is %s: %v\n%s", id, err, out)
		}
		return nil
	})
	// The first pods may be older than the webhook.
	kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "restart", "deployment/coredns")
	kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", withPatience)
	eventually(t, "DNS servers that use the name", func() error {
		hosts := kubectl(t, kubeconfig, "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o",
			"jsonpath={range .items[*]}{"+variable+"};{end}")
		for host := range strings.SplitSeq(strings.TrimSuffix(hosts, ";"), ";") {
			if host != want {
				return fmt.Errorf("KUBERNETES_SERVICE_HOST of their containers is %q, want %q", hosts, want)
			}
		}
		return nil
	})
}

// proxiedConnections is the number of connections with the PROXY protocol that the gateways of a seed have forwarded.
func proxiedConnections(t *testing.T, admin string) int {
	t.Helper()
	pods := kubectl(t, admin, "-n", "hortus-gateway", "get", "pods", "-l", "app=gateway",
		"--field-selector=status.phase=Running", "-o", "name")
	total := 0
	for pod := range strings.FieldsSeq(pods) {
		var metrics string
		forward(t, admin, "hortus-gateway", pod, "8080", func(url string) { metrics = answer(t, url+"/metrics") })
		total += counted(t, metrics, func(line string) bool {
			return strings.HasPrefix(line, "hortus_gateway_connections_total{") &&
				strings.Contains(line, `listener="proxy"`) && strings.Contains(line, `result="routed"`)
		})
	}
	return total
}

// counted returns the sum of the selected samples of metrics in the text format.
func counted(t *testing.T, metrics string, chosen func(line string) bool) int {
	t.Helper()
	total := 0
	for line := range strings.Lines(metrics) {
		if !chosen(line) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("read %q: %v", line, err)
		}
		total += int(n)
	}
	return total
}

// asksPods has a pod serve a validating webhook, a conversion and an aggregated API. All of its responses contain the
// name of the pod.
func asksPods(t *testing.T, kubeconfig string) {
	t.Helper()
	serveTLS(t, kubeconfig)
	pod := kubectl(t, kubeconfig, "get", "pods", "-l", "app=served", "-o", "jsonpath={.items[0].metadata.name}")
	configMap := func(verdict string) (string, error) {
		return applyText(t, kubeconfig, fmt.Sprintf(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s, namespace: default, labels: {echo: %[1]s}}\n", verdict))
	}
	eventually(t, "a ConfigMap that the webhook rejects", func() error {
		out, err := configMap("deny")
		if err == nil {
			kubectl(t, kubeconfig, "delete", "configmap", "deny") // The API server did not know the webhook yet.
		}
		if err == nil || !strings.Contains(out, "denied by "+pod) {
			return fmt.Errorf("it ends with %v\n%s", err, out)
		}
		return nil
	})
	if out, err := configMap("allow"); err != nil {
		t.Errorf("the webhook rejects a ConfigMap that it should allow: %v\n%s", err, out)
	}

	eventually(t, "an object that is converted", func() error {
		const thing = "apiVersion: ways.example.com/v1\nkind: Thing\nmetadata: {name: thing, namespace: default}\n"
		out, err := applyText(t, kubeconfig, thing)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		out, err = kubectlE(t, kubeconfig, "get", "things.v2.ways.example.com", "thing",
			"-o", `jsonpath={.apiVersion} {.metadata.annotations.hortus\.dev/converted-by}`)
		if err != nil || out != "ways.example.com/v2 "+pod {
			return fmt.Errorf("it is %q (%v)", out, err)
		}
		return nil
	})

	kubectl(t, kubeconfig, "wait", "--for=condition=Available", "apiservice/v1.echo.example.com", withPatience)
	eventually(t, "an object of the aggregated API", func() error {
		out, err := kubectlE(t, kubeconfig, "get", "echoes.v1.echo.example.com", "hello", "-o",
			"jsonpath={.metadata.name} {.from}")
		if err != nil || out != "hello "+pod {
			return fmt.Errorf("it is %q (%v)", out, err)
		}
		return nil
	})
}

// serveTLS applies the pod, the Service and the configuration by which the API server calls it, with a certificate for
// the Service, and waits for the pod.
func serveTLS(t *testing.T, kubeconfig string) {
	t.Helper()
	ca, err := pki.NewCA("ways", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Request{CommonName: "served", DNSNames: []string{"served.default.svc"}, Usage: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString
	filled := strings.NewReplacer(
		"tls.crt: CERTIFICATE", "tls.crt: "+encoded(pair.CertPEM), "tls.key: KEY", "tls.key: "+encoded(pair.KeyPEM),
		"caBundle: CA", "caBundle: "+encoded(ca.CertPEM)).Replace(testdata(t, "served.yaml"))
	if out, err := applyText(t, kubeconfig, filled); err != nil {
		t.Fatalf("apply served.yaml: %v\n%s", err, out)
	}
	kubectl(t, kubeconfig, "rollout", "status", "deployment/served", withPatience)
}

func testdata(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	taintNotReady = "node.gardener.cloud/critical-components-not-ready"
	lateDriver    = "late.csi.example.com"
)

// waitsForCritical adds a node on which a DaemonSet, a pod and a CSI driver start late, one after the other: other pods
// have to wait for all of them. The existing node is not affected.
func waitsForCritical(t *testing.T, kubeconfig, shoot string) {
	t.Helper()
	old := nodeOfPool(t, kubeconfig, "pool")
	applyTestdata(t, kubeconfig, "late.yaml", "")
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", shoot, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/provider/workers/0/minimum","value":2}]`)
	var node string
	eventually(t, "a new node that is Ready", func() error {
		for _, n := range nodesOfPool(t, kubeconfig, "pool") {
			if n.Name != old.Name && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			}) {
				node = n.Name
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	if out, err := applyText(t, kubeconfig, strings.ReplaceAll(testdata(t, "held.yaml"), "NODE", node)); err != nil {
		t.Fatalf("apply held.yaml: %v\n%s", err, out)
	}
	// waits until an event about the new node reports what it waits for, and checks that this keeps other pods off the
	// node.
	waits := func(reason, what string) {
		t.Helper()
		awaitNodeEvent(t, kubeconfig, node, reason, what)
		if on := kubectl(t, kubeconfig, "get", "pod", "ordinary", "-o", "jsonpath={.spec.nodeName}"); on != "" {
			t.Errorf("an ordinary pod is on %s, which waits for %s", on, what)
		}
		for name, want := range map[string]bool{old.Name: false, node: true} {
			if got := hasTaint(t, kubeconfig, name); got != want {
				t.Errorf("while the new node waits for %s: whether node %s has the taint is %t", what, name, got)
			}
		}
	}

	waits("UnscheduledNodeCriticalDaemonSets", "kube-system/late")
	kubectl(t, kubeconfig, "-n", "kube-system", "create", "serviceaccount", "late")
	// Controllers retry failed creations of pods at growing intervals, but at once after a change.
	kubectl(t, kubeconfig, "-n", "kube-system", "annotate", "daemonset", "late", "example.com/try=again")
	kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "daemonset/late", withPatience)
	waits("UnreadyNodeCriticalPods", "kube-system/held")
	eventually(t, "the held pod to become ready", func() error {
		if out, err := kubectlE(t, kubeconfig, "-n", "kube-system", "exec", "held", "--", "touch",
			"/state/ready"); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	waits("UnreadyRequiredCSIDrivers", lateDriver)
	driver := fmt.Sprintf(`[{"op":"add","path":"/spec/drivers/-","value":{"name":%q,"nodeID":%q,"topologyKeys":[]}}]`,
		lateDriver, node)
	eventually(t, "the driver in addition to the provider's", func() error {
		if out, err := kubectlE(t, kubeconfig, "patch", "csinode", node, "--type=json", "-p", driver); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/ordinary", withPatience)
	awaitNodeEvent(t, kubeconfig, node, "NodeCriticalComponentsReady", "")
	if hasTaint(t, kubeconfig, node) {
		t.Error("the node accepts pods, but has the taint")
	}
	awaitSucceeded(t, shoot)
}

// awaitNodeEvent waits for an event about a node with a message that contains a text. Repeated events keep the first
// message.
func awaitNodeEvent(t *testing.T, kubeconfig, node, reason, text string) {
	t.Helper()
	eventually(t, "the event "+reason+" of node "+node, func() error {
		messages := kubectl(t, kubeconfig, "-n", metav1.NamespaceDefault, "get", "events",
			"--field-selector=involvedObject.kind=Node,involvedObject.name="+node+",reason="+reason,
			"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
		if messages == "" || !strings.Contains(messages, text) {
			return fmt.Errorf("the messages are %q", messages)
		}
		return nil
	})
}

func hasTaint(t *testing.T, kubeconfig, node string) bool {
	t.Helper()
	taints := kubectl(t, kubeconfig, "get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
	return slices.Contains(strings.Fields(taints), taintNotReady)
}
