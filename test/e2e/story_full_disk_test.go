//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFullDiskLosesNothing fills the disk of a Shoot's etcd while clients write. The Shoot's conditions report it, and
// when there is space again, etcd continues with all acknowledged writes.
func TestFullDiskLosesNothing(t *testing.T) {
	story(t, firstSeed)
	const name, seed, instance, namespace, pod = "brim", "local-1", "garden", "shoot--dev--brim", "etcd-main-0"
	newShoot(t, "shoot-workerless.yaml", name)
	kubeconfig, admin := shootKubeconfig(t, name), adminOf(seed)
	kubectl(t, kubeconfig, "create", "configmap", "before", "--from-literal=a=b")
	hortus(t, "backup", "now", name, "-n", projectNS)

	// A small volume of its own: etcd finds it empty, and is restored from its backups.
	volume := kubectl(t, admin, "-n", namespace, "get", "pvc", "main-etcd-"+pod, "-o", "jsonpath={.spec.volumeName}")
	path := kubectl(t, admin, "get", "pv", volume, "-o", "jsonpath={.spec.hostPath.path}")
	onNode := func(command string) string {
		return hortus(t, "cloud", "instances", "exec", instance, "--", "sh", "-c", command)
	}
	onNode("mount -t tmpfs -o size=400m full " + path)
	t.Cleanup(func() { onNode("umount -l " + path) })
	uid := kubectl(t, admin, "-n", namespace, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
	kubectl(t, admin, "-n", namespace, "delete", "pod", pod)
	eventually(t, "an API server that answers, with the restored etcd", func() error {
		now := kubectl(t, admin, "-n", namespace, "get", "pod", pod, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
		out, err := kubectlE(t, kubeconfig, "get", "configmap", "before", "-o", "name")
		if now == uid || err != nil {
			return fmt.Errorf("%s: %s (%v)", now, out, err)
		}
		return nil
	})
	w := startWriter(t, kubeconfig)

	onNode("dd if=/dev/zero of=" + path + "/filler bs=1M || true")
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("0123456789abcdef", 1000000/16)), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an etcd that cannot write any more", func() error {
		_, err := kubectlE(t, kubeconfig, "create", "configmap", fmt.Sprintf("large-%d", time.Now().UnixNano()),
			"--from-file="+large, "--request-timeout=5s")
		if silent := w.silent(); err == nil || silent < 5*time.Second {
			return fmt.Errorf("the last write was acknowledged %s ago (%v)", silent, err)
		}
		return nil
	})
	eventually(t, "a condition that reports the full disk", func() error {
		out := kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "get", "shoot", name, "-o",
			`jsonpath={.status.conditions[?(@.type=="ControlPlaneHealthy")].message}`)
		if !strings.Contains(out, "no space left") {
			return fmt.Errorf("%q", out)
		}
		t.Log(out)
		return nil
	})

	onNode("rm " + path + "/filler")
	w.awaitMore(t, 10)
	t.Logf("%d acknowledged writes", w.check(t, kubeconfig))
}
