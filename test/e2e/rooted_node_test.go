//go:build landscape

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// strong is a pod with a cluster administrator's token, for nodes with components of the system.
const strong = `apiVersion: v1
kind: ServiceAccount
metadata: {name: strong, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: strong}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: strong, namespace: kube-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: strong, namespace: kube-system}
spec:
  selector: {matchLabels: {app: strong}}
  template:
    metadata: {labels: {app: strong}}
    spec:
      serviceAccountName: strong
      terminationGracePeriodSeconds: 0
      nodeSelector: {worker.gardener.cloud/system-components: "true"}
      containers:
      - {name: echo, image: "hortus.dev/echo:1.0.0", args: [serve, --port, "8080"]}
`

// checkRootedNode uses all credentials on a node of the pool without components of the system, as an attacker who has
// become root there would, to reach other nodes: a pod with a strong token, the other machine's certificates, the other
// pool's configuration.
func checkRootedNode(t *testing.T) {
	admin := shootKubeconfig(t, "two")
	mine, other := nodeOfPool(t, admin, "large"), nodeOfPool(t, admin, "pool")
	if out, err := applyText(t, admin, strong); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		kubectl(t, admin, "-n", "kube-system", "delete", "--wait=false",
			"deployment/strong", "serviceaccount/strong", "clusterrolebinding/strong")
	})
	kubectl(t, admin, "-n", "kube-system", "rollout", "status", "deployment/strong", withPatience)

	root := rootOf(t, mine.Name)
	agentCert, agentKey := pairOf(t, filepath.Join(root, "var/lib/gardener-node-agent/credentials/kubeconfig"))
	agent := as(t, admin, "agent", &clientcmdapi.AuthInfo{ClientCertificateData: agentCert, ClientKeyData: agentKey})
	kubeletPEM := kubeletCertificate(t, root)
	kubelet := as(t, admin, "kubelet",
		&clientcmdapi.AuthInfo{ClientCertificateData: kubeletPEM, ClientKeyData: kubeletPEM})

	secretOf := func(labels map[string]string) string {
		return labels["worker.gardener.cloud/gardener-node-agent-secret-name"]
	}
	forSystem := "worker.gardener.cloud/system-components=true"
	kubectl(t, agent, "-n", "kube-system", "get", "secret", secretOf(mine.Labels), "-o", "name")
	for _, try := range []struct {
		who, kubeconfig string
		args            []string
	}{
		{"the node agent", agent, []string{"-n", "kube-system", "get", "secret", secretOf(other.Labels)}},
		{"the node agent", agent, []string{"get", "secrets", "-A"}},
		{"the node agent", agent, []string{"get", "pods", "-A"}},
		{"the node agent", agent, []string{"cordon", other.Name}},
		{"the node agent", agent, []string{"taint", "node", other.Name, "a=b:NoExecute"}},
		{"the node agent", agent, []string{"label", "node", mine.Name, forSystem}},
		{"the node agent", agent, []string{"-n", "kube-system", "create", "token", "strong"}},
		{"the kubelet", kubelet, []string{"label", "node", mine.Name, forSystem}},
		{"the kubelet", kubelet, []string{"label", "--overwrite", "node", mine.Name, "worker.gardener.cloud/pool=pool"}},
		{"the kubelet", kubelet, []string{"cordon", other.Name}},
		{"the kubelet", kubelet, []string{"-n", "kube-system", "get", "secret", secretOf(other.Labels)}},
		{"the kubelet", kubelet, []string{"-n", "kube-system", "create", "token", "strong"}},
		{"the kubelet", kubelet, []string{"-n", "kube-system", "delete", "pod", "-l", "app=strong"}},
	} {
		if out, err := kubectlE(t, try.kubeconfig, try.args...); err == nil || !refusedByAPI(out) {
			t.Errorf("%s may %s: %v\n%s", try.who, strings.Join(try.args, " "), err, out)
		}
	}

	kubectl(t, admin, "-n", "kube-system", "delete", "pod", "-l", "app=strong")
	kubectl(t, admin, "-n", "kube-system", "rollout", "status", "deployment/strong", withPatience)
	on := kubectl(t, admin, "-n", "kube-system", "get", "pods", "-l", "app=strong", "-o",
		"jsonpath={.items[*].spec.nodeName}")
	if strings.TrimSpace(on) != other.Name {
		t.Errorf("the strong pod is on %q, want %q", on, other.Name)
	}
	checkCertificatesAreOwn(t, admin, mine.Name, other.Name, map[string]string{
		"the node agent": agent, "the kubelet": kubelet, "its bootstrap token": bootstrap(t, admin, mine.Name),
	})
	checkServingCertificatesAreOwn(t, admin, kubelet, &mine, &other)
}

// checkCertificatesAreOwn requests certificates of another machine with all credentials of a machine, and a second
// certificate of its own with its bootstrap token.
func checkCertificatesAreOwn(t *testing.T, admin, mine, other string, credentials map[string]string) {
	t.Helper()
	const client, node = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet"
	agentOf := func(machine string) pkix.Name {
		return pkix.Name{
			CommonName: "gardener.cloud:node-agent:machine:" + machine, Organization: []string{"gardener.cloud:node-agents"},
		}
	}
	for _, try := range []struct {
		who, what, signer string
		subject           pkix.Name
		may               bool
	}{
		// On the local cloud a node has the name of its machine.
		{"the node agent", "another node agent", client, agentOf(other), false},
		{"the node agent", "another kubelet", node, kubeletOf(other), false},
		{"the node agent", "itself", client, agentOf(mine), true},
		{"the kubelet", "another node agent", client, agentOf(other), false},
		{"the kubelet", "another kubelet", node, kubeletOf(other), false},
		{"the kubelet", "itself", node, kubeletOf(mine), true},
		{"its bootstrap token", "another node agent", client, agentOf(other), false},
		{"its bootstrap token", "another kubelet", node, kubeletOf(other), false},
		{"its bootstrap token", "its own kubelet once more", node, kubeletOf(mine), false},
	} {
		name, err := createRequest(t, credentials[try.who], try.signer, try.subject)
		if err != nil {
			// Kubernetes itself rejects a kubelet's request for another node.
			if try.may || !refusedByAPI(err.Error()) {
				t.Errorf("%s can't ask for a certificate of %s: %v", try.who, try.what, err)
			}
			continue
		}
		condition := map[bool]string{true: "Approved", false: "Denied"}[try.may]
		if out, err := kubectlE(t, admin, "wait", "--for=condition="+condition, "csr/"+name, withPatience); err != nil {
			t.Errorf("%s asks for a certificate of %s, which is not %s: %v\n%s", try.who, try.what, strings.ToLower(condition),
				err, out)
		}
	}
}

// checkServingCertificatesAreOwn writes the address and the name of another node into the own Node's status, as root
// may with the kubelet's certificate, and requests serving certificates for them: with one, the node could impersonate
// the other to the API server. The kubelet restores its own addresses every few seconds; then the request is rejected
// for another reason, and it is retried.
func checkServingCertificatesAreOwn(t *testing.T, admin, kubelet string, mine, other *corev1.Node) {
	t.Helper()
	write := func(who string, more ...corev1.NodeAddress) {
		t.Helper()
		addresses, err := json.Marshal(slices.Concat(mine.Status.Addresses, more))
		if err != nil {
			t.Fatal(err)
		}
		// Without kubectl, which reads the status first: kubelets may not do that.
		patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/status/addresses", "value": %s}]`, addresses)
		nodes := dynamicClient(t, who).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
		ctx := context.WithoutCancel(t.Context())
		if _, err := nodes.Patch(ctx, mine.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatalf("write addresses into the status of node %s: %v", mine.Name, err)
		}
	}
	t.Cleanup(func() { write(admin) })
	ownIP, otherIP := internalIPOf(t, mine), internalIPOf(t, other)
	for _, try := range []struct {
		what   string
		names  []string
		ips    []net.IP
		says   corev1.NodeAddress // The address written into the status.
		denied string             // The reason for the denial; empty means approved.
	}{
		{what: "its own", names: []string{mine.Name}, ips: []net.IP{ownIP}},
		{
			what: "the address of another node", names: []string{mine.Name}, ips: []net.IP{ownIP, otherIP},
			says:   corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: otherIP.String()},
			denied: fmt.Sprintf("is also that of node %q", other.Name),
		},
		{
			what: "the name of another node", names: []string{mine.Name, other.Name}, ips: []net.IP{ownIP},
			says:   corev1.NodeAddress{Type: corev1.NodeHostName, Address: other.Name},
			denied: fmt.Sprintf("the DNS name %q is also that of node", other.Name),
		},
	} {
		eventually(t, "the answer to a serving certificate for "+try.what, func() error {
			if try.denied != "" {
				write(kubelet, try.says)
			}
			name, err := createRequestFor(t, kubelet, "kubernetes.io/kubelet-serving", "server auth",
				&x509.CertificateRequest{Subject: kubeletOf(mine.Name), DNSNames: try.names, IPAddresses: try.ips})
			if err != nil {
				return err
			}
			if try.denied == "" {
				kubectl(t, admin, "wait", "--for=condition=Approved", "csr/"+name, withPatience)
				return nil
			}
			kubectl(t, admin, "wait", "--for=condition=Denied", "csr/"+name, withPatience)
			message := kubectl(t, admin, "get", "csr", name, "-o", "jsonpath={.status.conditions[0].message}")
			if !strings.Contains(message, try.denied) {
				return fmt.Errorf("denied since %s, want %s", message, try.denied)
			}
			return nil
		})
	}
}

func internalIPOf(t *testing.T, node *corev1.Node) net.IP {
	t.Helper()
	for _, a := range node.Status.Addresses {
		if ip := net.ParseIP(a.Address); a.Type == corev1.NodeInternalIP && ip != nil {
			return ip
		}
	}
	t.Fatalf("node %s has no internal address: %v", node.Name, node.Status.Addresses)
	return nil
}

func kubeletOf(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// createRequest requests a client certificate and returns the name of the request, or the response as error.
func createRequest(t *testing.T, kubeconfig, signer string, subject pkix.Name) (string, error) {
	t.Helper()
	return createRequestFor(t, kubeconfig, signer, "client auth", &x509.CertificateRequest{Subject: subject})
}

func createRequestFor(t *testing.T, kubeconfig, signer, usage string, wish *x509.CertificateRequest) (string, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, wish, key)
	if err != nil {
		t.Fatal(err)
	}
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	path := filepath.Join(t.TempDir(), "csr.yaml")
	manifest := fmt.Sprintf(`apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {generateName: rooted-}
spec: {signerName: %q, usages: [digital signature, %s], request: %q}
`, signer, usage, base64.StdEncoding.EncodeToString(request))
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := kubectlE(t, kubeconfig, "create", "-f", path, "-o", "jsonpath={.metadata.name}")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(out), nil
}

// bootstrap creates the bootstrap token of a machine again, as the machine controller did, and returns a kubeconfig
// with it.
func bootstrap(t *testing.T, admin, machine string) string {
	t.Helper()
	id, secret := hex.EncodeToString([]byte(machine[len(machine)-5:]))[:6], "0123456789abcdef"
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-%[1]s, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData: {token-id: %[1]q, token-secret: %[2]q, usage-bootstrap-authentication: "true"}
`, id, secret)
	if out, err := applyText(t, admin, manifest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { kubectl(t, admin, "-n", "kube-system", "delete", "secret", "bootstrap-token-"+id) })
	return as(t, admin, "bootstrap", &clientcmdapi.AuthInfo{Token: id + "." + secret})
}

// as returns a kubeconfig for the same cluster with other credentials.
func as(t *testing.T, admin, name string, who *clientcmdapi.AuthInfo) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = who
	}
	path := filepath.Join(t.TempDir(), name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// refusedByAPI reports whether it was the API server that rejected the request.
func refusedByAPI(out string) bool {
	for _, sign := range []string{"forbidden", "Forbidden", "denied request"} {
		if strings.Contains(out, sign) {
			return true
		}
	}
	return false
}

// rootOf returns the root directory of a machine, as its node agent sees it.
func rootOf(t *testing.T, node string) string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if line, err := os.ReadFile(p); err != nil || !bytes.Contains(line, []byte("gardener-node-agent\x00node-agent")) {
			continue
		}
		root := filepath.Join(filepath.Dir(p), "root")
		if name, err := os.ReadFile(filepath.Join(root, "etc/hostname")); err == nil &&
			strings.TrimSpace(string(name)) == node {
			return root
		}
	}
	t.Fatalf("no node agent runs on %s", node)
	return ""
}

// pairOf returns certificate and key of a kubeconfig.
func pairOf(t *testing.T, kubeconfig string) (cert, key []byte) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		return user.ClientCertificateData, user.ClientKeyData
	}
	t.Fatalf("%s has no user", kubeconfig)
	return nil, nil
}

// kubeletCertificate returns certificate and key of the kubelet, which are in one file. The link to it is absolute, so
// it is resolved below the machine's root.
func kubeletCertificate(t *testing.T, root string) []byte {
	t.Helper()
	to, err := os.Readlink(filepath.Join(root, "var/lib/kubelet/pki/kubelet-client-current.pem"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, to))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
