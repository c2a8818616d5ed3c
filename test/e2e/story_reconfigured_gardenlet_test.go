//go:build landscape

package e2e

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/extension/poolhash"
)

// checkPeriod is how often the story's gardenlet checks Shoots.
const checkPeriod = 10 * time.Second

// TestOperatorReconfiguresAGardenlet switches the hash of worker pools and the repair of webhooks while a Shoot is in
// use. The pools begin with the classic hash. The switch replaces no machine; each pool gets the new hash when its
// machines are replaced anyway. Webhooks that block system components are repaired. The owner of one changes it back
// each time; it is repaired at growing intervals.
//
// The story needs the second seed exclusively: it restarts a gardenlet, which then repairs the webhooks of all Shoots
// of its seed.
func TestOperatorReconfiguresAGardenlet(t *testing.T) {
	story(t, bothSeeds)
	const name, seed = "reconfigured", "local-2"
	reconfigure := func(newWorkerPoolHash, remediate bool) {
		t.Helper()
		reconfigureGardenlet(t, seed, func(config map[string]any) {
			config["featureGates"] = map[string]any{"NewWorkerPoolHash": newWorkerPoolHash}
			care := map[string]any{"syncPeriod": checkPeriod.String(), "webhookRemediatorEnabled": remediate}
			if err := unstructured.SetNestedMap(config, care, "controllers", "shootCare"); err != nil {
				t.Fatal(err)
			}
		})
	}
	restoreGardenlet(t, seed)
	reconfigure(false, false)
	applyTestdata(t, kubeconfigOf("garden"), "shoot-reconfigured.yaml", "")
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	pools := pooled{name, shootKubeconfig(t, name)}
	versions := func(want string) {
		t.Helper()
		if got := hashVersions(t, seed, name); got != want {
			t.Errorf("pools have the hashes %s, want %s", got, want)
		}
	}
	versions("red: classic, green: classic")

	step(t, "settings of the kubelet that only the new hash counts replace nothing with the classic one",
		func(t *testing.T) {
			pools.apply(t, roll{hash: classicHash, patch: `{"op":"add","path":"/spec/kubernetes/kubelet","value":{
			"kubeReserved":{"cpu":"100m","memory":"256Mi"},"systemReserved":{"cpu":"50m"},"evictionHard":{"memoryAvailable":"70Mi"}}}`})
			if got := evictionThreshold(t, pools.kubeconfig, nodeOfPool(t, pools.kubeconfig, "red").Name); got != "70Mi" {
				t.Errorf("the kubelet has the threshold %q", got)
			}
		})
	step(t, "switching to the new hash replaces nothing", func(t *testing.T) {
		reconfigure(true, true)
		pools.apply(t, roll{hash: classicHash, asks: "reconcile"})
		versions("red: classic, green: classic")
	})
	step(t, "a webhook that blocks system components is repaired",
		func(t *testing.T) { repairsWebhook(t, name, pools.kubeconfig) })

	applyTestdata(t, pools.kubeconfig, "stubborn.yaml", "")
	writes, stop := changeBack(t, pools.kubeconfig)
	step(t, "a pool gets the new hash when its machines are replaced anyway", func(t *testing.T) {
		pools.apply(t, roll{
			hash: eitherHash, patch: addTo(red, "kubernetes", `{"kubelet":{"evictionHard":{"memoryAvailable":"80Mi"}}}`),
			pools: []string{"red"},
		})
		versions("red: new, green: classic")
	})
	step(t, "the configuration of a provider and the DNS cache roll pools with the classic hash", func(t *testing.T) {
		byPool := func(shoot *corev1beta1.Shoot, pool *corev1beta1.Worker) (string, error) {
			if pool.Name == "red" {
				return newHash(shoot, pool)
			}
			return classicHash(shoot, pool)
		}
		config := func(tag string) string {
			return `{"apiVersion":"local.provider.hortus.dev/v1alpha1","kind":"WorkerConfig","tags":{"example.com/tag":"` + tag +
				`"}}`
		}
		pools.apply(t, roll{hash: byPool, patch: addTo(red, "providerConfig", config("a")) + "," +
			addTo(green, "providerConfig", config("b")),
			pools: []string{"green"}})
		versions("red: new, green: classic")
		pools.apply(t,
			roll{hash: byPool, patch: `{"op":"add","path":"/spec/systemComponents","value":{"nodeLocalDNS":{"enabled":true}}}`,
				pools: []string{"green"}})
	})
	step(t, "a webhook that its owner changes back is repaired at growing intervals", func(t *testing.T) {
		awaitShoot(t, name, "the constraint that names the webhook", func(o *unstructured.Unstructured) bool {
			c := conditionOf(o, "constraints", "HibernationPossible")
			message, _ := c["message"].(string)
			return c["status"] == "False" && c["reason"] == "ProblematicWebhooks" &&
				strings.Contains(message, "changed back since then: stubborn.")
		})
		eventually(t, "three repairs", func() error {
			if n, _ := writes(); n < 3 {
				return fmt.Errorf("the webhook was repaired %d times", n)
			}
			return nil
		})
		n, since := writes()
		checks := float64(since) / float64(checkPeriod)
		most := int(math.Log2(checks+1)) + 1 // Pauses of 1, 2, 4, ... checks.
		if n > most {
			t.Errorf("the webhook was repaired %d times in %s, want at most %d", n, since, most)
		}
		t.Logf("%d repairs in the time of %.0f checks", n, checks)
		stop()
		kubectl(t, pools.kubeconfig, "delete", "validatingwebhookconfiguration", "stubborn")
		awaitShoot(t, name, "conditions and constraints to be True", allWell)
	})
	step(t, "switching back replaces nothing", func(t *testing.T) {
		reconfigure(false, false)
		pools.apply(t, roll{asks: "reconcile"})
		versions("red: new, green: classic")
	})
}

// repairsWebhook installs a webhook that rejects all pods, and deletes the pods of the Shoot's DNS: they are created
// again when the webhook has been repaired. The repair does not change what the webhook does in other namespaces.
func repairsWebhook(t *testing.T, shoot, kubeconfig string) {
	applyTestdata(t, kubeconfig, "webhook.yaml", "")
	kubectl(t, kubeconfig, "-n", "kube-system", "delete", "pods", "-l", "k8s-app=kube-dns", "--wait=false")
	repaired := awaitShoot(t, shoot, "the constraint that reports the repair", func(o *unstructured.Unstructured) bool {
		return conditionOf(o, "constraints", "MaintenancePreconditionsSatisfied")["reason"] == "RemediatedWebhooks"
	})
	message, _ := conditionOf(repaired, "constraints", "MaintenancePreconditionsSatisfied")["message"].(string)
	if !strings.Contains(message, "nobody") {
		t.Errorf("the constraint says: %s", message)
	}
	warning := kubectl(t, kubeconfig, "get", "validatingwebhookconfiguration", "nobody", "-o",
		`jsonpath={.metadata.annotations.gardener\.cloud/warning}`)
	if !strings.Contains(warning, "pods.nobody.example.com") || !strings.Contains(warning, "Selector was extended") {
		t.Errorf("the owner of the webhook reads: %q", warning)
	}
	if out, err := kubectlE(t, kubeconfig, "run", "refused", "--image=hortus.dev/echo:1.0.0"); err == nil {
		t.Errorf("the webhook has not rejected a user's pod: %s", out)
	}
	// The ReplicaSet controller retries failed creations of pods at growing intervals, but at once after a change.
	kubectl(t, kubeconfig, "-n", "kube-system", "annotate", "replicasets", "-l", "k8s-app=kube-dns",
		"example.com/try=again")
	kubectl(t, kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", withPatience)
	kubectl(t, kubeconfig, "delete", "validatingwebhookconfiguration", "nobody")
	awaitShoot(t, shoot, "conditions and constraints to be True", allWell)
}

// changeBack acts as a controller that keeps the webhook of stubborn.yaml as its owner wants it. It returns a function
// that returns the number of changes by others and the creation time of the webhook, and a function that ends the
// controller.
func changeBack(t *testing.T, kubeconfig string) (writes func() (int, time.Duration), stop func()) {
	t.Helper()
	resource := dynamicClient(t,
		kubeconfig).Resource(admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; pause(ctx) {
			keepTimeout(ctx, t, resource)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return func() (int, time.Duration) {
		t.Helper()
		now, err := resource.Get(t.Context(), "stubborn", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The owner creates the first generation. Each later change is followed by one back.
		return int(now.GetGeneration() / 2), time.Since(now.GetCreationTimestamp().Time)
	}, stop
}

// keepTimeout restores the timeout of the webhook until the watch ends.
func keepTimeout(ctx context.Context, t *testing.T, resource dynamic.ResourceInterface) {
	watch, err := resource.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=stubborn"})
	if err != nil {
		return // The API server may be busy.
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		o, isObject := event.Object.(*unstructured.Unstructured)
		if !isObject {
			return
		}
		webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		if len(webhooks) != 1 || webhooks[0].(map[string]any)["timeoutSeconds"] == int64(30) {
			continue
		}
		webhooks[0].(map[string]any)["timeoutSeconds"] = int64(30)
		if err := unstructured.SetNestedSlice(o.Object, webhooks, "webhooks"); err != nil {
			t.Error(err)
		}
		if _, err := resource.Update(ctx, o, metav1.UpdateOptions{FieldManager: "stubborn"}); err != nil {
			return // The next watch begins with the newest version.
		}
	}
}

// eitherHash returns the hashes that count for a pool with the classic hash while the new one is known, too.
func eitherHash(shoot *corev1beta1.Shoot, pool *corev1beta1.Worker) (string, error) {
	classic, err := poolhash.ClassV1(poolhash.FromShoot(shoot, pool))
	if err != nil {
		return "", err
	}
	latest, err := newHash(shoot, pool)
	return classic + " " + latest, err
}

// hashVersions returns the version of the hash of each pool's machines: pools with the classic hash have no key in the
// Worker.
func hashVersions(t *testing.T, seed, shoot string) string {
	t.Helper()
	out := kubectl(t, adminOf(seed), "-n", "shoot--dev--"+shoot, "get", "worker", shoot, "-o",
		`jsonpath={range .spec.pools[*]}{.name} {.nodeAgentSecretName}{"\n"}{end}`)
	var versions []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		version := "classic"
		if len(fields) > 1 {
			version = "new"
		}
		versions = append(versions, fields[0]+": "+version)
	}
	return strings.Join(versions, ", ")
}
