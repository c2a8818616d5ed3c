//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// TestLostEtcdVolumeIsRestored deletes the volume of a Shoot's etcd while a client writes: everything up to the last
// delta is restored automatically.
func TestLostEtcdVolumeIsRestored(t *testing.T) {
	story(t, firstSeed)
	const name = "phoenix"
	newShoot(t, "shoot-workerless.yaml", name)
	kubeconfig, seed, namespace := shootKubeconfig(t, name), adminOf(seedOf(t, name)), "shoot--dev--"+name
	w := startWriter(t, kubeconfig)
	kubectl(t, kubeconfig, "create", "configmap", "before", "--from-literal=a=b")
	uid := kubectl(t, kubeconfig, "get", "configmap", "before", "-o", "jsonpath={.metadata.uid}")
	saved, version := w.acknowledged(), resourceVersion(t, kubeconfig)

	eventually(t, "a delta with the acknowledged writes", func() error {
		keys := backupsOf(t, namespace)
		for _, key := range keys {
			if o, ok := chain.ParseName(path.Base(key)); ok && o.Kind == chain.Delta && o.Last >= int64(version) {
				return nil
			}
		}
		return fmt.Errorf("revision %d is not in %v", version, keys)
	})

	start := time.Now()
	kubectl(t, seed, "-n", namespace, "delete", "pvc", "main-etcd-etcd-main-0", "--wait=false")
	kubectl(t, seed, "-n", namespace, "delete", "pod", "etcd-main-0", "--wait=false")
	eventually(t, "a new volume", func() error {
		out := kubectl(t, seed, "-n", namespace, "get", "pvc", "main-etcd-etcd-main-0", "--ignore-not-found", "-o",
			"jsonpath={.metadata.deletionTimestamp}/{.status.phase}")
		if out != "/Bound" {
			return fmt.Errorf("the claim is %q", out)
		}
		return nil
	})
	eventually(t, "an API server that answers", func() error {
		out, err := kubectlE(t, kubeconfig, "get", "configmap", "before", "-o", "jsonpath={.metadata.uid}")
		if err != nil || out != uid {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	t.Logf("the API answers %s after the volume was deleted", time.Since(start).Round(100*time.Millisecond))
	w.awaitMore(t, 20)
	gap, failed := w.longestGap()
	t.Logf("longest time without an acknowledged write: %s, failed requests %v", gap.Round(time.Millisecond), failed)
	if now := resourceVersion(t, kubeconfig); now <= version {
		t.Errorf("resource versions have gone back from %d to %d", version, now)
	}
	w.end()
	w.checkFirst(t, kubeconfig, saved)
	awaitShoot(t, name, "a healthy control plane", func(o *unstructured.Unstructured) bool { return succeeded(o) })
}

// resourceVersion is the newest resource version in a Shoot.
func resourceVersion(t *testing.T, kubeconfig string) int {
	t.Helper()
	var list struct {
		Metadata struct {
			ResourceVersion json.Number
		}
	}
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfig, "get", "--raw", "/api/v1/namespaces")), &list); err != nil {
		t.Fatal(err)
	}
	version, err := list.Metadata.ResourceVersion.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return int(version)
}

// backupsOf lists the keys of the backups of a control plane, of all buckets.
func backupsOf(t *testing.T, namespace string) []string {
	t.Helper()
	var keys []string
	var buckets struct{ Items []struct{ Name string } }
	if err := json.Unmarshal([]byte(hortus(t, "cloud", "buckets", "list", "-o", "json")), &buckets); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range buckets.Items {
		var objects struct{ Items []struct{ Key string } }
		if err := json.Unmarshal([]byte(hortus(t, "cloud", "buckets", "list", bucket.Name, "-o", "json")),
			&objects); err != nil {
			t.Fatal(err)
		}
		for _, object := range objects.Items {
			if strings.HasPrefix(object.Key, namespace+"--") {
				keys = append(keys, object.Key)
			}
		}
	}
	return keys
}
