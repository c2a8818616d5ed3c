//go:build landscape

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// thing is an object whose finalizer nobody removes, of the kind in testdata/clingy.yaml.
const thing = `apiVersion: clingy.example.com/v1
kind: Thing
metadata: {name: thing, namespace: default, finalizers: [example.com/nobody]}
`

// TestSleepAndDeletion has schedules hibernate and wake up a Shoot, while a change of its spec waits for its
// maintenance time window. Then it deletes the Shoot while it has all objects that can block a deletion: it is removed
// after the grace periods in its annotations, and the cloud has no objects of it left.
func TestSleepAndDeletion(t *testing.T) {
	story(t, firstSeed)
	const name, seed, namespace = "drowsy", "local-1", "shoot--dev--drowsy"
	garden, admin := kubeconfigOf("garden"), adminOf(seed)
	applyShootOn(t, "shoot.yaml", name, seed, confinedUntilLater(time.Now()))
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	var address string

	step(t, "a Service answers at an address of the cloud", func(t *testing.T) {
		kubectl(t, kubeconfig, "create", "configmap", "before", "--from-literal=is=there")
		if out, err := applyText(t, kubeconfig, example(t, "workload.yaml")); err != nil {
			t.Fatalf("apply the workload: %v\n%s", err, out)
		}
		kubectl(t, kubeconfig, "patch", "service", "echo", "-p", `{"spec":{"type":"LoadBalancer"}}`)
		kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
		address = publicAddress(t, kubeconfig, "echo")
		answer(t, "http://"+address)
		cloudHas(t, name, map[string]int{"instances": 1, "networks": 1, "load-balancers": 1, "dns": 2})
	})
	step(t, "a Shoot that could not wake up stays awake", func(t *testing.T) {
		applyTestdata(t, kubeconfig, "webhook.yaml", "")
		reconcileNow(t, name) // Its health is checked right afterwards.
		awaitShoot(t, name, "a constraint that forbids hibernation", func(o *unstructured.Unstructured) bool {
			return conditionOf(o, "constraints", "HibernationPossible")["status"] == "False"
		})
		out, err := kubectlE(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p",
			`{"spec":{"hibernation":{"enabled":true}}}`)
		if err == nil || !strings.Contains(out, "HibernationPossible") {
			t.Errorf("hibernation is not rejected: %v\n%s", err, out)
		}
		kubectl(t, kubeconfig, "delete", "validatingwebhookconfiguration", "nobody")
		reconcileNow(t, name)
		awaitShoot(t, name, "conditions and constraints to be True", allWell)
	})
	step(t, "a change waits for its window", func(t *testing.T) {
		generation := func() string {
			return kubectl(t, garden, "-n", projectNS, "get", "shoot", name, "-o",
				"jsonpath={.metadata.generation} {.status.observedGeneration}")
		}
		before := generation()
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=json", "-p",
			`[{"op":"add","path":"/spec/provider/workers/0/labels","value":{"example.com/pending":"yes"}}]`)
		if after := generation(); after != before {
			t.Errorf("generations were %s and are %s", before, after)
		}
		if nodeOfPool(t, kubeconfig, "pool").Labels["example.com/pending"] != "" {
			t.Error("the node has the label before its time")
		}
	})
	step(t, "asleep by its schedule, it has neither pods nor machines", func(t *testing.T) {
		scheduleHibernation(t, name, "start", true)
		if out := kubectl(t, garden, "-n", projectNS, "get", "shoot", name); !strings.Contains(out, "Hibernated") {
			t.Errorf("the Shoot is listed as\n%s", out)
		}
		eventually(t, "a control plane without pods and machines", func() error {
			const kinds = "pods,machines.machine.sapcloud.io"
			if out := kubectl(t, admin, "-n", namespace, "get", kinds, "--ignore-not-found", "-o", "name"); out != "" {
				return errors.New(out)
			}
			return nil
		})
		cloudHas(t, name, map[string]int{"networks": 1, "load-balancers": 1})
		awaitShoot(t, name, "conditions that are not checked", func(o *unstructured.Unstructured) bool {
			for _, condition := range []string{
				"APIServerAvailable", "ControlPlaneHealthy", "EveryNodeReady", "SystemComponentsHealthy",
			} {
				if c := conditionOf(o, "conditions", condition); c["status"] != "True" || c["reason"] != "ConditionNotChecked" {
					return false
				}
			}
			return true
		})
	})
	step(t, "awake by its schedule, it is as it was, and has the change", func(t *testing.T) {
		scheduleHibernation(t, name, "end", false)
		if is := kubectl(t, kubeconfig, "get", "configmap", "before", "-o", "jsonpath={.data.is}"); is != "there" {
			t.Errorf("the ConfigMap from before the hibernation has %q", is)
		}
		kubectl(t, kubeconfig, "rollout", "status", "deployment/echo", withPatience)
		if now := publicAddress(t, kubeconfig, "echo"); now != address {
			t.Errorf("the Service was at %s and is at %s", address, now)
		}
		answer(t, "http://"+address)
		eventually(t, "a node with the label that was pending", func() error {
			if labels := nodeOfPool(t, kubeconfig, "pool").Labels; labels["example.com/pending"] != "yes" {
				return fmt.Errorf("labels %v", labels)
			}
			return nil
		})
		cloudHas(t, name, map[string]int{"instances": 1, "networks": 1, "load-balancers": 1, "dns": 2})
	})
	step(t, "a user cannot delete the blocked objects", func(t *testing.T) { cling(t, kubeconfig) })
	step(t, "the deletion of the Shoot removes everything and leaves nothing in the cloud", func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "confirmation.gardener.cloud/deletion=true",
			"shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds=5",
			"shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds=5",
			// After it, load balancers may be left behind as well: they get what a busy machine needs.
			"shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds=20")
		kubectl(t, garden, "-n", projectNS, "delete", "shoot", name, "--wait=false")
		onlyKeptIsLeft(t, name, kubeconfig)
		awaitShoot(t, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
		cloudHas(t, name, map[string]int{})
		awaitLeft(t, name, seed)
		out := kubectl(t, garden, "-n", projectNS, "get", "secrets,configmaps,internalsecrets,shootstates", "-o", "name")
		for line := range strings.Lines(out) {
			if strings.Contains(line, "/"+name+".") || strings.HasSuffix(strings.TrimSpace(line), "/"+name) {
				t.Errorf("the garden still has %s", line)
			}
		}
	})
}

// confinedUntilLater is a line of a spec by which changes wait for a window that opens in six hours.
func confinedUntilLater(now time.Time) string {
	return fmt.Sprintf("maintenance: {confineSpecUpdateRollout: true, %s}", laterWindow(now))
}

// scheduleHibernation gives the Shoot a schedule with one field, start or end, for the next minute, and waits until it
// is hibernated or awake. The patch may take longer than that minute: missed schedules are caught up on.
func scheduleHibernation(t *testing.T, name, field string, hibernated bool) {
	t.Helper()
	at := time.Now().UTC().Add(time.Minute).Format("4 15 * * *")
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"hibernation":{"schedules":[{%q:%q,"location":"Etc/UTC"}]}}}`, field, at))
	what := fmt.Sprintf("hibernation to be %t by the schedule %q", hibernated, at)
	awaitShoot(t, name, what, func(o *unstructured.Unstructured) bool {
		enabled, _, _ := unstructured.NestedBool(o.Object, "spec", "hibernation", "enabled")
		is, _, _ := unstructured.NestedBool(o.Object, "status", "hibernated")
		return succeeded(o) && enabled == hibernated && is == hibernated
	})
}

// reconcileNow requests a reconciliation and waits for its end.
func reconcileNow(t *testing.T, name string) {
	t.Helper()
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=reconcile")
	awaitSucceeded(t, name)
}

// publicAddress is where a Service of type LoadBalancer in the namespace default answers.
func publicAddress(t *testing.T, kubeconfig, service string) (address string) {
	t.Helper()
	eventually(t, "the load balancer of "+service+" to have an address", func() error {
		address = kubectl(t, kubeconfig, "get", "service", service, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
		if address == "" {
			return errors.New("none yet")
		}
		return nil
	})
	return address
}

// applyClingy creates objects that block a deletion.
func applyClingy(t *testing.T, kubeconfig string) {
	t.Helper()
	applyTestdata(t, kubeconfig, "clingy.yaml", "")
	eventually(t, "an object of the new kind", func() error {
		if out, err := applyText(t, kubeconfig, thing); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	for _, deployment := range []string{"keeper", "kept"} {
		kubectl(t, kubeconfig, "rollout", "status", "deployment/"+deployment, withPatience)
	}
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "pod/stuck", "pod/deaf", withPatience)
}

// cling creates objects that block a deletion, and tries to delete one.
func cling(t *testing.T, kubeconfig string) {
	t.Helper()
	applyClingy(t, kubeconfig)
	kubectl(t, kubeconfig, "rollout", "restart", "deployment/keeper")
	kubectl(t, kubeconfig, "rollout", "status", "deployment/keeper", withPatience)
	if starts := kubectl(t, kubeconfig, "exec", "deployment/keeper", "--", "cat", "/data/starts"); strings.Count(starts,
		"\n") != 2 {
		t.Errorf("the volume has not been kept from one pod to the next; it has notes of these starts:\n%s", starts)
	}
	applyTestdata(t, kubeconfig, "in-the-way.yaml", "")
	eventually(t, "the webhook to reject requests", func() error {
		out, err := kubectlE(t, kubeconfig, "delete", "pod", "stuck", "--dry-run=server")
		if err == nil || !strings.Contains(out, "failed calling webhook") {
			return fmt.Errorf("the deletion ends with %v\n%s", err, out)
		}
		return nil
	})
}

// onlyKeptIsLeft waits until only one Deployment of the user is left, the one that the clean-up has to keep.
func onlyKeptIsLeft(t *testing.T, name, kubeconfig string) {
	t.Helper()
	deployments := dynamicClient(t,
		kubeconfig).Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace("default")
	eventually(t, "the clean-up", func() error {
		list, err := deployments.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			if kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "--ignore-not-found", "-o",
				"name") == "" {
				t.Fatal("the Shoot is gone, and the deletion of its Deployments was not observed")
			}
			return err
		}
		var left []string
		for _, deployment := range list.Items {
			if deployment.GetDeletionTimestamp() == nil {
				left = append(left, deployment.GetName())
			}
		}
		if !slices.Contains(left, "kept") {
			t.Fatalf("the Deployment that should be kept is deleted; others are %q", left)
		}
		if len(left) > 1 {
			return fmt.Errorf("there are %q", left)
		}
		return nil
	})
}

// cloudHas checks the number of a Shoot's objects of each kind in the cloud's own lists. Kinds that are not given must
// have none.
func cloudHas(t *testing.T, shoot string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, cloudObjectsOf(t, shoot)); diff != "" {
		t.Errorf("objects of Shoot %s in the cloud (-want +got):\n%s", shoot, diff)
	}
}

// cloudObjectsOf counts a Shoot's objects of each kind in the cloud's own lists.
func cloudObjectsOf(t *testing.T, shoot string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, kind := range []string{"instances", "networks", "load-balancers", "volumes", "dns"} {
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		out := hortus(t, "cloud", kind, "list", "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("no list of %s: %v\n%s", kind, err, out)
		}
		for _, item := range list.Items {
			// Names or tags contain the name of the control plane, DNS names that of the Shoot.
			if strings.Contains(string(item), "shoot--dev--"+shoot) || strings.Contains(string(item), `"api.`+shoot+".") {
				got[kind]++
			}
		}
	}
	return got
}
