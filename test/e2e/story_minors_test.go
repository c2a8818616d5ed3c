//go:build landscape

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ending is a NamespacedCloudProfile in which a version of Kubernetes expires earlier than in its parent.
const ending = `
apiVersion: core.gardener.cloud/v1beta1
kind: NamespacedCloudProfile
metadata:
  name: ending
  namespace: ` + projectNS + `
spec:
  parent: {kind: CloudProfile, name: local}
  kubernetes:
    versions:
    - version: %s
      expirationDate: %q
`

// TestMinorsByMaintenance has maintenance update a Shoot by two minor versions of Kubernetes, one after the other,
// since its versions expire: first at its owner's request, then because its time window opens. Each time its machines
// are replaced, and a workload with a disruption budget stays available.
func TestMinorsByMaintenance(t *testing.T) {
	story(t, firstSeed)
	const name = "hops"
	garden := kubeconfigOf("garden")
	for _, version := range []string{"1.34.4", "1.35.4"} { // They may be built first.
		awaitImage(t, "/v2/kube-apiserver/manifests/v"+version+"?ns=registry.k8s.io")
	}
	end := expire(t, "1.34.4", time.Minute)
	applyShoot(t, "shoot-hops.yaml")
	t.Cleanup(func() { kubectl(t, garden, "-n", projectNS, "delete", "namespacedcloudprofile", "ending") })
	t.Cleanup(func() { deleteShoot(t, name) })
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	applyTestdata(t, kubeconfig, "guarded.yaml", "")
	kubectl(t, kubeconfig, "rollout", "status", "deployment/guarded", withPatience)
	pods := dynamicClient(t, kubeconfig).Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	before := nodesOfPool(t, kubeconfig, "pool")
	w := startWriter(t, kubeconfig)
	request := func(t *testing.T) {
		kubectl(t, garden, "-n", projectNS, "annotate", "shoot", name, "gardener.cloud/operation=maintain")
	}
	var begin time.Time
	openWindow := func(t *testing.T) {
		begin = soonestWindow(projectNS+"/"+name, time.Now())
		kubectl(t, garden, "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p", timeWindow(begin))
	}
	for _, hop := range []struct {
		from, to string
		maintain func(*testing.T)
	}{{"1.34.4", "1.35.4", request}, {"1.35.4", "1.36.3", openWindow}} {
		step(t, fmt.Sprintf("%s has expired and is replaced by %s", hop.from, hop.to), func(t *testing.T) {
			if hop.from != "1.34.4" {
				end = expire(t, hop.from, 5*time.Second)
			}
			counts := watchCounts(t, pods, "app=guarded", podReady)
			time.Sleep(time.Until(end)) // Real time: the version expires.
			w.during(t, "the update to "+hop.to, updateGap, func() {
				hop.maintain(t)
				done := awaitShoot(t, name, "Kubernetes "+hop.to, func(o *unstructured.Unstructured) bool {
					version, _, _ := unstructured.NestedString(o.Object, "spec", "kubernetes", "version")
					return version == hop.to && succeeded(o)
				})
				at := timeIn(done, "status", "lastMaintenance", "triggeredTime")
				if at.Before(begin) {
					t.Errorf("the maintenance began at %s, before its time window, which opened at %s", at, begin)
				}
			})
			after := nodesOfPool(t, kubeconfig, "pool")
			if len(after) != len(before) {
				t.Errorf("the pool had %d nodes and has %d", len(before), len(after))
			}
			for _, node := range after {
				if version := node.Status.NodeInfo.KubeletVersion; version != "v"+hop.to {
					t.Errorf("node %s runs Kubernetes %s", node.Name, version)
				}
				for _, old := range before {
					if old.UID == node.UID {
						t.Errorf("node %s was there before", node.Name)
					}
				}
			}
			before = after
			if least, _ := counts(); least < 1 {
				t.Error("the workload was unavailable for a while")
			}
		})
	}
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}

// expire lets a version expire in the profile "ending", and returns the time.
func expire(t *testing.T, version string, in time.Duration) time.Time {
	t.Helper()
	end := time.Now().Add(in).Truncate(time.Second).Add(time.Second)
	if out, err := applyText(t, kubeconfigOf("garden"),
		fmt.Sprintf(ending, version, end.UTC().Format(time.RFC3339))); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return end
}
