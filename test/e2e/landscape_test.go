//go:build landscape

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/local/cloud"
)

// TestLandscape is the story of a landscape from its creation to its removal. An existing landscape is removed first.
func TestLandscape(t *testing.T) {
	garden := kubeconfigOf("garden")
	hortus(t, "down")
	t.Cleanup(func() { // The Shoots of a landscape that has failed would take processor time from the other stories.
		if t.Failed() && os.Getenv(keepLandscape) == "" {
			hortus(t, "down")
		}
	})
	before := observeHost(t)

	step(t, "up can be interrupted", checkInterrupt)
	step(t, "up brings a landscape", func(t *testing.T) {
		out := hortus(t, "up")
		if !strings.Contains(out, "kubectl apply -f examples/shoot.yaml") {
			t.Errorf("up does not end with the next steps:\n%s", out)
		}
		landscapeObjects = cloudObjects(t)
	})
	step(t, "a second up changes nothing", func(t *testing.T) {
		first := hortus(t, "cloud", "instances", "list", "-o", "json")
		hortus(t, "up")
		if second := hortus(t, "cloud", "instances", "list", "-o", "json"); bootsOf(t, second) != bootsOf(t, first) {
			t.Errorf("instances before and after the second up:\n%s\n%s", first, second)
		}
	})
	step(t, "the API explains itself", func(t *testing.T) {
		if out := kubectl(t, garden, "explain", "shoot.spec.kubernetes"); !strings.Contains(out, "version") {
			t.Errorf("explain says:\n%s", out)
		}
		if out := kubectl(t, garden, "get", "seeds"); !strings.Contains(out, "local-1") || !strings.Contains(out, "local-2") {
			t.Errorf("seeds are:\n%s", out)
		}
	})
	step(t, "a Shoot with an unknown machine type is refused", func(t *testing.T) {
		manifest := strings.Replace(example(t, "shoot.yaml"), "type: small", "type: gigantic", 1)
		out, err := applyText(t, garden, manifest)
		if err == nil || !strings.Contains(out, "gigantic") || !strings.Contains(out, "machine.type") {
			t.Errorf("the answer is %v:\n%s", err, out)
		}
	})

	step(t, "the example becomes a cluster", func(t *testing.T) {
		kubectl(t, garden, "apply", "-f", "examples/shoot.yaml")
		shoot := awaitSucceeded(t, "demo")
		if progress := lastOperation(shoot, "progress"); progress != "100" {
			t.Errorf("progress is %s", progress)
		}
		kubeconfig := shootKubeconfig(t, "demo")
		kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "nodes", "--all", withPatience)
		if out := kubectl(t, kubeconfig, "version"); !strings.Contains(out, "Server Version: v1.36.3") {
			t.Errorf("kubectl version says:\n%s", out)
		}
	})
	step(t, "a gardenlet reads nothing but its own seed's", checkSeedsAreConfined)
	step(t, "the identity of its garden is the suffix of its own", checkIdentity)
	step(t, "a gardenlet replaces its certificate while it runs", checkGardenletRenews)
	step(t, "the plan shows what will happen to it", checkPlan)
	step(t, "effects of edits are known before they are made", checkDiff)
	step(t, "an edit restarts what was said before", checkRestarts)
	step(t, "a maintenance can be requested", checkMaintenance)
	step(t, "a second machine joins and pods of both answer each other by DNS name", func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", "demo", "--type=json", "-p",
			`[{"op":"replace","path":"/spec/provider/workers/0/minimum","value":2}]`)
		awaitSucceeded(t, "demo")
		kubeconfig := shootKubeconfig(t, "demo")
		eventually(t, "two Ready nodes", func() error {
			out := kubectl(t, kubeconfig, "get", "nodes", "--no-headers")
			if got := strings.Count(out, " Ready "); got != 2 {
				return fmt.Errorf("%d nodes are ready:\n%s", got, out)
			}
			return nil
		})
		kubectl(t, kubeconfig, "apply", "-f", "examples/workload.yaml")
		kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
		pods := strings.Fields(kubectl(t, kubeconfig, "get", "pods", "-l", "app=echo", "-o",
			"jsonpath={.items[*].metadata.name}"))
		nodes := strings.Fields(kubectl(t, kubeconfig, "get", "pods", "-l", "app=echo", "-o",
			"jsonpath={.items[*].spec.nodeName}"))
		if len(nodes) != 2 || nodes[0] == nodes[1] {
			t.Fatalf("the pods are on %v, want two nodes", nodes)
		}
		for _, pod := range pods { // From each pod, both pods must answer through the Service.
			heard := map[string]bool{}
			eventually(t, "answers of both pods", func() error {
				out, err := kubectlE(t, kubeconfig, "exec", pod, "--", "/echo", "get", "http://echo.default.svc.cluster.local/")
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				for _, answering := range pods {
					heard[answering] = heard[answering] || strings.Contains(out, answering)
				}
				if !heard[pods[0]] || !heard[pods[1]] {
					return fmt.Errorf("heard %v", heard)
				}
				return nil
			})
		}
	})
	step(t, "it has one machine less when its minimum is lower", func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", "demo", "--type=json", "-p",
			`[{"op":"replace","path":"/spec/provider/workers/0/minimum","value":1}]`)
		awaitSucceeded(t, "demo")
		if nodes := strings.Fields(kubectl(t, shootKubeconfig(t, "demo"), "get", "nodes", "-o", "name")); len(nodes) != 1 {
			t.Errorf("it has the nodes %v, want one", nodes)
		}
		if instances := cloudObjectsOf(t, "demo")["instances"]; instances != 1 {
			t.Errorf("the cloud has %d instances of it, want one", instances)
		}
	})
	step(t, "the tour of the README works", checkTour)
	step(t, "a kube-proxy that starts again keeps all Services", checkKubeProxyKeepsServices)
	step(t, "an older minor is built on first use", func(t *testing.T) {
		// The request of a container runtime, but with a longer timeout than the Shoot's first operation has.
		awaitImage(t, "/v2/kube-apiserver/manifests/v1.35.4?ns=registry.k8s.io")
	})
	step(t, "three more Shoots at once: two pools, no machines, and an older minor", func(t *testing.T) {
		for _, file := range []string{"shoot-two-pools.yaml", "shoot-workerless.yaml", "shoot-1.35.yaml"} {
			kubectl(t, garden, "apply", "-f", "examples/"+file)
		}
		for _, name := range []string{"two", "api-only", "older"} {
			awaitSucceeded(t, name)
		}
		if out := kubectl(t, shootKubeconfig(t, "two"), "get", "nodes", "--no-headers"); strings.Count(out, " Ready ") != 2 {
			t.Errorf("the Shoot of two pools has nodes:\n%s", out)
		}
		if out := kubectl(t, shootKubeconfig(t, "older"), "version"); !strings.Contains(out, "Server Version: v1.35.4") {
			t.Errorf("kubectl version of the older one says:\n%s", out)
		}
		kubectl(t, shootKubeconfig(t, "api-only"), "get", "namespaces")
	})
	step(t, "conditions and constraints show what is broken, and heal", checkCare)
	step(t, "gardenlets do what they have rights for", func(t *testing.T) { rightsAreObserved(t, ownClusters) })
	step(t, "deleted Shoots leave nothing", func(t *testing.T) {
		for _, name := range []string{"demo", "two", "api-only", "older"} {
			kubectl(t, garden, "-n", projectNS, "annotate", "--overwrite", "shoot", name,
				"confirmation.gardener.cloud/deletion=true")
			kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
		}
		for _, name := range []string{"demo", "two", "api-only", "older"} {
			awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
		}
		nothingLeft(t)
	})
	step(t, "a client needs to know no more than JSON", checkClient)
	step(t, "a Shoot beyond the quota says so and heals when it is raised", checkQuota)
	rightsAreObserved(t, ownClusters)
	step(t, "down leaves no trace", func(t *testing.T) {
		hortus(t, "down")
		before.compare(t, observeHost(t))
	})
}

// step runs a part of the story. A failed part ends the story, since the following ones would only repeat its failure.
func step(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	start := time.Now()
	if !t.Run(name, run) {
		keepState(t)
		t.FailNow()
	}
	t.Logf("%s: %s", name, time.Since(start).Round(100*time.Millisecond))
}

func example(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "examples", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func applyText(t *testing.T, kubeconfig, manifest string) (string, error) {
	t.Helper()
	folder, err := os.MkdirTemp("", "hortus-e2e-") // kubectl splits at commas, which the name of a test may have.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	file := filepath.Join(folder, "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubectlE(t, kubeconfig, "apply", "-f", file)
}

// bootsOf lists the instances and how often each has booted.
func bootsOf(t *testing.T, listing string) string {
	t.Helper()
	var instances struct {
		Items []struct {
			ID    string `json:"id"`
			Boots int    `json:"boots"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(listing), &instances); err != nil {
		t.Fatalf("%v:\n%s", err, listing)
	}
	return fmt.Sprint(instances.Items)
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// nothingLeft waits until the listings of cloud, seeds and garden show that deleted Shoots have left nothing.
func nothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, "deleted Shoots to have left nothing", func() error {
		var left []error
		for kind, want := range map[string]int{"instances": len(ownClusters), "networks": len(ownClusters)} {
			var list struct {
				Items []map[string]any `json:"items"`
			}
			out := hortus(t, "cloud", kind, "list", "-o", "json")
			if err := json.Unmarshal([]byte(out), &list); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if len(list.Items) != want {
				left = append(left, fmt.Errorf("the cloud has %d %s, want just the landscape's own %d:\n%s", len(list.Items),
					kind, want, out))
			}
		}
		if now := cloudObjects(t); now != landscapeObjects {
			left = append(left, fmt.Errorf("the cloud has load balancers, volumes or buckets\n%s\nwith no Shoot it had\n%s",
				now, landscapeObjects))
		}
		if out := hortus(t, "cloud", "dns", "list", "-o", "json"); strings.Contains(out, "api.") {
			left = append(left, fmt.Errorf("the cloud still has DNS records:\n%s", out))
		}
		for _, cluster := range ownClusters {
			kubeconfig := kubeconfigOf(cluster)
			if out := kubectl(t, kubeconfig, "get", "namespaces", "-o", "name"); strings.Contains(out, "shoot--") {
				left = append(left, fmt.Errorf("cluster %s still has namespaces:\n%s", cluster, out))
			}
			if out := kubectl(t, kubeconfig, "get", "clusters.extensions.gardener.cloud,persistentvolumes", "-A", "-o",
				"name"); strings.Contains(out, "shoot--") {
				left = append(left, fmt.Errorf("cluster %s still has:\n%s", cluster, out))
			}
		}
		out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "secrets,configmaps,internalsecrets,shootstates",
			"-o", "name")
		for _, name := range []string{"demo.", "two.", "api-only.", "older."} {
			if strings.Contains(out, "/"+name) {
				left = append(left, fmt.Errorf("the garden still has:\n%s", out))
			}
		}
		return errors.Join(left...)
	})
}

// awaitImage requests an image from the cloud's registry until the registry has it.
func awaitImage(t *testing.T, path string) {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(stateDir, "cloud", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	admin, err := cloud.LoadConfig(filepath.Join(stateDir, "cloud", "admin.json"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:7443"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Do(request); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a client without credentials gets %v, %v; nothing may be built for it", response, err)
	}
	request.SetBasicAuth(admin.AccessKey, admin.SecretKey)
	for {
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case response.StatusCode == http.StatusOK:
			return
		case response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(answer), "is being built"):
			t.Fatalf("the registry answers %s: %s", response.Status, answer)
		}
		t.Logf("%s", answer)
	}
}

// landscapeObjects is the result of cloudObjects for a landscape without Shoots.
var landscapeObjects string

// cloudObjects names the objects, other than instances and networks, that a Shoot may leave in the cloud.
func cloudObjects(t *testing.T) string {
	t.Helper()
	var found []string
	for _, kind := range []string{"load-balancers", "volumes", "buckets"} {
		var list struct {
			Items []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"items"`
		}
		if out := hortus(t, "cloud", kind, "list", "-o", "json"); json.Unmarshal([]byte(out), &list) != nil {
			t.Fatalf("no list of %s:\n%s", kind, out)
		}
		for _, item := range list.Items {
			found = append(found, kind+"/"+item.ID+item.Name)
		}
	}
	slices.Sort(found)
	return strings.Join(found, "\n")
}

// ownClusters are the landscape's own clusters. Each is a seed; the garden's is the first one, local-1.
var ownClusters = []string{"garden", "seed-2"}
