//go:build landscape

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"hortus.dev/hortus/internal/crds"
)

// helm runs the helm of the components.
func helm(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	out, err := run(t, componentPrograms(t, "helm")["helm"], append([]string{"--kubeconfig", kubeconfig}, args...)...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// innerGarden is what a garden in a Shoot is given to keep.
const innerGarden = `apiVersion: core.gardener.cloud/v1beta1
kind: Project
metadata: {name: inner}
spec: {namespace: garden-inner}
---
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata: {name: kept}
helm: {rawChart: a2VwdA==}
`

// staleSoon has arguments of the controller manager: Projects without use are stale at once, and are deleted a day
// after their announcement.
const staleSoon = `["--project-minimum-lifetime-days=0", "--project-stale-grace-period-days=0",
	"--project-stale-expiration-time-days=1", "--project-stale-sync-period=5s"]`

// TestGardenIsInstalledByHelm installs a garden into a Shoot with nothing but the image, as into any other cluster,
// changes it, lets a gardenlet join, creates a Shoot, removes all of it, and installs the garden again: what it had is
// there.
func TestGardenIsInstalledByHelm(t *testing.T) {
	story(t, firstSeed)
	const name = "inside"
	applyShootTextOn(t, strings.Replace(example(t, "shoot.yaml"), "type: small", "type: medium", 1), name, "local-1")
	hortus(t, "components", "build", "helm")
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	image := kubectl(t, adminOf("local-1"), "-n", "garden", "get", "deployment", "gardenlet",
		"-o", "jsonpath={.spec.template.spec.containers[0].image}")
	release := func(t *testing.T, verb string, args ...string) {
		t.Helper()
		out := helm(t, kubeconfig, append([]string{verb, "garden", "charts/garden", "--namespace=garden", "--wait",
			"--timeout=10m", "--set=image=" + image}, args...)...)
		if !strings.Contains(out, "STATUS: deployed") {
			t.Errorf("helm %s says:\n%s", verb, out)
		}
		kubectl(t, kubeconfig, "wait", "--for=condition=Available", "apiservice", withPatience,
			"-l", "!kube-aggregator.kubernetes.io/automanaged")
	}
	certificates := func(t *testing.T) (version string) {
		t.Helper()
		return kubectl(t, kubeconfig, "-n", "garden", "get", "secret", "hortus-certificates", "hortus-apiserver-encryption",
			"-o", "jsonpath={.items[*].metadata.resourceVersion}")
	}
	var made string

	step(t, "the defaults are enough", func(t *testing.T) {
		release(t, "install", "--create-namespace")
		made = certificates(t)
		if out, err := applyText(t, kubeconfig, innerGarden); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		kubectl(t, kubeconfig, "wait", "project/inner", "--for=jsonpath={.status.phase}=Ready", withPatience)
	})
	step(t, "bad input is refused with its field", func(t *testing.T) {
		out, err := applyText(t, kubeconfig, strings.ReplaceAll(innerGarden, "name: inner", "name: much-too-long"))
		if err == nil || !strings.Contains(out, "metadata.name") {
			t.Errorf("a Project whose name is too long: %v\n%s", err, out)
		}
	})
	step(t, "an upgrade changes the given values and keeps certificates and key", func(t *testing.T) {
		release(t, "upgrade", "--set=apiserver.replicas=1,controllerManager.replicas=1,scheduler.replicas=1",
			"--set-json=controllerManager.args="+staleSoon)
		if got := kubectl(t, kubeconfig, "-n", "garden", "get", "deployment", "-o",
			"jsonpath={.items[*].spec.replicas}"); got != "1 1 1" {
			t.Errorf("the Deployments have %s replicas, want 1 each", got)
		}
		if now := certificates(t); now != made {
			t.Errorf("the Secrets of certificates and key were in versions %s, are in %s", made, now)
		}
	})
	step(t, "a Project without use is deleted after an announcement",
		func(t *testing.T) { checkStaleProject(t, kubeconfig) })
	step(t, "metrics are for those who may read them", func(t *testing.T) {
		defineKindsOf(t, kubeconfig, "monitoring.coreos.com")
		release(t, "upgrade", "--reuse-values", "--set=monitoring.enabled=true")
		kubectl(t, kubeconfig, "-n", "garden", "get", "servicemonitors", "hortus-apiserver", "hortus-controller-manager",
			"hortus-scheduler")
		grantMetrics(t, kubeconfig)
		checkMetricsNeedRights(t, kubeconfig, "deployment/hortus-controller-manager", "8443", "workqueue_depth")
		checkMetricsNeedRights(t, kubeconfig, "deployment/hortus-apiserver", "8443", "apiserver_request_total")
	})
	step(t, "a gardenlet joins with a token", func(t *testing.T) {
		publishInner(t, kubeconfig, image)
		values, bootstrap := filepath.Join(t.TempDir(), "values.yaml"), filepath.Join(t.TempDir(), "inner.yaml")
		for file, text := range map[string]string{
			values: fmt.Sprintf("image: %s\n%s", image, fmt.Sprintf(innerSeed, nodeRange(t, name))),
			bootstrap: hortus(t, "garden", "bootstrap-kubeconfig", "inner", "--kubeconfig", kubeconfig,
				"--server", "https://kubernetes.default.svc"),
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		helm(t, kubeconfig, "install", "gardenlet", "charts/gardenlet", "--namespace=garden", "--create-namespace", "--wait",
			"--timeout=10m", "--values", values, "--set-file", "bootstrapKubeconfig="+bootstrap)
		// It is ready when it has its certificate, with which it reaches the garden.
		if out := kubectl(t, kubeconfig, "-n", "garden", "get", "secret", "gardenlet-kubeconfig", "-o",
			"jsonpath={.data.kubeconfig}"); out == "" {
			t.Error("its certificate is not stored")
		}
		used := kubectl(t, kubeconfig, "-n", "kube-system", "get", "secret",
			"--field-selector=type=bootstrap.kubernetes.io/token",
			"-o", `jsonpath={.items[?(@.metadata.annotations.hortus\.dev/seed=="inner")].metadata.annotations}`)
		if !strings.Contains(used, "certificate-signing-request") {
			t.Errorf("the token may be used once more: %s", used)
		}
		kubectl(t, kubeconfig, "wait", "seed/"+innerSeedName, "--for=create", withPatience)
		for _, c := range []string{"GardenletReady", "SeedSystemComponentsHealthy", "ExtensionsReady", "BackupBucketsReady"} {
			kubectl(t, kubeconfig, "wait", "seed/"+innerSeedName, "--for=condition="+c, withPatience)
		}
	})
	step(t, "a Shoot runs on it, which upgrades leave alone", func(t *testing.T) {
		checkInnerShoot(t, kubeconfig, func(t *testing.T, name string) {
			checkUpgrades(t, kubeconfig, name, func() {
				release(t, "upgrade", "--reuse-values", "--set=apiserver.replicas=2,controllerManager.replicas=2")
			}, func() {
				helm(t, kubeconfig, "upgrade", "gardenlet", "charts/gardenlet", "--namespace=garden", "--wait", "--timeout=10m",
					"--reuse-values", "--set-string",
					`config.seedConfig.spec.settings.loadBalancerServices.annotations.example\.com/upgraded=yes`)
			})
		})
	})
	step(t, "the Seed and its gardenlet are removed", func(t *testing.T) {
		removeInnerSeed(t, kubeconfig)
		helm(t, kubeconfig, "uninstall", "gardenlet", "--namespace=garden", "--wait", "--timeout=10m")
	})
	step(t, "it goes with all of its objects", func(t *testing.T) {
		manifest := filepath.Join(t.TempDir(), "manifest.yaml")
		objects := helm(t, kubeconfig, "get", "manifest", "garden", "--namespace=garden")
		if err := os.WriteFile(manifest, []byte(objects), 0o600); err != nil {
			t.Fatal(err)
		}
		helm(t, kubeconfig, "uninstall", "garden", "--namespace=garden", "--wait", "--timeout=10m")
		eventually(t, "the objects of the release to be gone", func() error {
			if out := kubectl(t, kubeconfig, "get", "-f", manifest, "--ignore-not-found", "-o", "name"); out != "" {
				return fmt.Errorf("there are still:\n%s", out)
			}
			return nil
		})
	})
	kept := func(t *testing.T) {
		t.Helper()
		if now := certificates(t); now != made {
			t.Errorf("the Secrets of certificates and key were in versions %s, are in %s", made, now)
		}
		kubectl(t, kubeconfig, "wait", "project/inner", "--for=jsonpath={.status.phase}=Ready", withPatience)
		var kept struct{ Helm map[string]any }
		out := kubectl(t, kubeconfig, "get", "controllerdeployments.v1.core.gardener.cloud", "kept", "-o", "json")
		if err := json.Unmarshal([]byte(out), &kept); err != nil || kept.Helm["rawChart"] != "a2VwdA==" {
			t.Errorf("what was encrypted is %v (%v)", kept, err)
		}
	}
	step(t, "another one continues with what it had", func(t *testing.T) {
		release(t, "install")
		kept(t)
	})
	step(t, "one member of its etcd becomes three", func(t *testing.T) {
		kubectl(t, kubeconfig, "-n", "garden", "delete", "statefulset", "hortus-etcd")
		release(t, "upgrade", "--reset-then-reuse-values", "--set=etcd.replicas=3")
		kept(t)
	})
	step(t, "one of them loses its volume, and gets back what it had", func(t *testing.T) {
		const member = "hortus-etcd-0"
		lost := kubectl(t, kubeconfig, "-n", "garden", "get", "pvc", "data-"+member, "-o", "jsonpath={.metadata.uid}")
		kubectl(t, kubeconfig, "-n", "garden", "delete", "pvc", "data-"+member, "--wait=false")
		kubectl(t, kubeconfig, "-n", "garden", "delete", "pod", member, "--wait=false")
		writes, last, gap := 0, time.Now(), time.Duration(0)
		eventually(t, "the member to be back", func() error {
			manifest := strings.ReplaceAll(innerGarden, "name: kept", fmt.Sprintf("name: written-%d", writes))
			if out, err := applyText(t, kubeconfig, manifest); err != nil {
				return fmt.Errorf("write %d: %w\n%s", writes, err, out)
			}
			writes, last, gap = writes+1, time.Now(), max(gap, time.Since(last))
			now := kubectl(t, kubeconfig, "-n", "garden", "get", "pvc", "-l", "app=hortus-etcd", "-o",
				`jsonpath={.items[?(@.metadata.name=="data-`+member+`")].metadata.uid}`)
			ready := kubectl(t, kubeconfig, "-n", "garden", "get", "statefulset", "hortus-etcd", "-o",
				"jsonpath={.status.readyReplicas}")
			if now == "" || now == lost || ready != "3" {
				return fmt.Errorf("%s members are ready, the volume of %s is %q", ready, member, now)
			}
			return nil
		})
		t.Logf("%d writes meanwhile, the longest took %s", writes, gap.Round(time.Millisecond))
		for i := range writes {
			kubectl(t, kubeconfig, "get", "controllerdeployments.v1.core.gardener.cloud", fmt.Sprintf("written-%d", i))
		}
	})
}

// checkStaleProject creates a Project that nobody uses. Its deletion is announced, unless it is exempt, and it is
// deleted when the announced time has come. A Project with a later time stays.
func checkStaleProject(t *testing.T, kubeconfig string) {
	t.Helper()
	const name, namespace, annotation = "idle", "garden-idle", "project.gardener.cloud/skip-stale-check"
	project := fmt.Sprintf(`{"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": %q},
		"spec": {"namespace": %q}}`, name, namespace)
	if out, err := applyText(t, kubeconfig, project); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	since, announced := awaitStale(t, kubeconfig, name)
	if got := announced.Sub(since); got != 24*time.Hour {
		t.Errorf("stale since %s, the Project will be deleted %s later, want a day", since, got)
	}
	awaitStale(t, kubeconfig, "inner")
	kubectl(t, kubeconfig, "annotate", "namespace", namespace, annotation+"=true")
	eventually(t, "an exempt Project that is not stale", func() error {
		if since, announced := staleTimes(t, kubeconfig, name); since != "" || announced != "" {
			return fmt.Errorf("stale since %q, to be deleted at %q", since, announced)
		}
		return nil
	})
	kubectl(t, kubeconfig, "annotate", "namespace", namespace, annotation+"-")
	awaitStale(t, kubeconfig, name)

	// Nobody waits for a day: an operator brings the time forward.
	now := time.Now().UTC()
	kubectl(t, kubeconfig, "patch", "project", name, "--subresource=status", "--type=merge", "-p",
		fmt.Sprintf(`{"status": {"staleSinceTimestamp": %q, "staleAutoDeleteTimestamp": %q}}`,
			now.Add(-25*time.Hour).Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339)))
	kubectl(t, kubeconfig, "wait", "project/"+name, "--for=delete", withPatience)
	if out := kubectl(t, kubeconfig, "get", "namespace", namespace, "--ignore-not-found", "-o", "name"); out != "" {
		t.Errorf("the Project is gone, its namespace is not: %s", out)
	}
	kubectl(t, kubeconfig, "wait", "project/inner", "--for=jsonpath={.status.phase}=Ready", withPatience)
}

// staleTimes are the times since which a Project is stale and at which it will be deleted; empty for none.
func staleTimes(t *testing.T, kubeconfig, project string) (since, announced string) {
	t.Helper()
	out := kubectl(t, kubeconfig, "get", "project", project, "-o",
		"jsonpath={.status.staleSinceTimestamp},{.status.staleAutoDeleteTimestamp}")
	since, announced, _ = strings.Cut(out, ",")
	return since, announced
}

// awaitStale waits until the deletion of a stale Project has been announced.
func awaitStale(t *testing.T, kubeconfig, project string) (since, announced time.Time) {
	t.Helper()
	eventually(t, "the announcement of the deletion of Project "+project, func() error {
		first, last := staleTimes(t, kubeconfig, project)
		var errs [2]error
		since, errs[0] = time.Parse(time.RFC3339, first)
		announced, errs[1] = time.Parse(time.RFC3339, last)
		return errors.Join(errs[:]...)
	})
	return since, announced
}

// defineKindsOf makes the kinds of another project known to a cluster, as gardenlets do in seeds.
func defineKindsOf(t *testing.T, kubeconfig, group string) {
	t.Helper()
	for _, definition := range crds.Placeholders() {
		if definition.Spec.Group != group {
			continue
		}
		definition.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
		text, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := applyText(t, kubeconfig, string(text)); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		kubectl(t, kubeconfig, "wait", "--for=condition=Established", "crd", definition.Name, withPatience)
	}
}

// grantMetrics gives a new ServiceAccount the permission that Prometheus needs, as docs/install.md says.
func grantMetrics(t *testing.T, kubeconfig string) {
	t.Helper()
	kubectl(t, kubeconfig, "-n", "garden", "create", "serviceaccount", readerOfMetrics)
	kubectl(t, kubeconfig, "create", "clusterrole", readerOfMetrics, "--verb=get", "--non-resource-url=/metrics")
	kubectl(t, kubeconfig, "create", "clusterrolebinding", readerOfMetrics, "--clusterrole="+readerOfMetrics,
		"--serviceaccount=garden:"+readerOfMetrics)
}

const readerOfMetrics = "metrics-reader"

// checkMetricsNeedRights reads metrics of a pod in the namespace garden without a token, as a ServiceAccount without
// rights, and as one that may.
func checkMetricsNeedRights(t *testing.T, kubeconfig, pod, port, metric string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // Generated by the pod.
	defer transport.CloseIdleConnections()
	read := func(url, account string) (status int, body string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return 0, "", err
		}
		if account != "" {
			token := kubectl(t, kubeconfig, "-n", "garden", "create", "token", account)
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return response.StatusCode, string(text), err
	}
	forward(t, kubeconfig, "garden", pod, port, func(url string) {
		url = strings.Replace(url, "http:", "https:", 1) + "/metrics"
		eventually(t, "metrics of "+pod, func() error {
			status, body, err := read(url, readerOfMetrics)
			if err == nil && (status != http.StatusOK || !strings.Contains(body, metric)) {
				err = fmt.Errorf("status %d: %.200s", status, body)
			}
			return err
		})
		for _, account := range []string{"", "default"} {
			status, body, err := read(url, account)
			if err != nil || status != http.StatusUnauthorized && status != http.StatusForbidden {
				t.Errorf("%s answers account %q with %d: %v: %.200s", pod, account, status, err, body)
			}
		}
	})
}
