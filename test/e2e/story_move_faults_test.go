//go:build landscape

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// moveFault is a failure during a move.
type moveFault struct {
	name string
	// before is called before the move begins, strike while it is in progress, after at its end. Each may be nil.
	before, strike, after func(*testing.T, movement)
}

// moveFaults strike one move each. Each move begins where the previous one has ended.
var moveFaults = []moveFault{
	{name: "the source's gardenlet is killed when it has stopped the API server", strike: func(t *testing.T, m movement) {
		m.awaitAPIServerStopped(t)
		m.kill(t, m.from, "hortus gardenlet", "")
	}},
	{name: "the destination's gardenlet is killed during the restore", strike: func(t *testing.T, m movement) {
		awaitShoot(t, m.shoot, "a restore that has begun", func(o *unstructured.Unstructured) bool {
			return seedIn(o) == m.to && lastOperation(o, "type") == "Restore"
		})
		m.kill(t, m.to, "hortus gardenlet", "")
	}},
	{name: "the source's etcd is killed while it stores the last delta", strike: func(t *testing.T, m movement) {
		awaitShoot(t, m.shoot, "a destination that prepares", func(o *unstructured.Unstructured) bool {
			return m.handedOver(o) || lastOperation(o, "type") == "Migrate" &&
				strings.Contains(lastOperation(o, "description"), "is preparing")
		})
		// Slow enough that the last delta is being uploaded when the API server has ended.
		setFault(t, "slow-delta", "slow", "PutObject", "--target", m.bucket(t), "--delay", "5s")
		eventually(t, "the end of the API server's process on "+m.from, func() error {
			if pids := m.processes(t, m.from, "kube-apiserver ", m.namespace()); len(pids) > 0 {
				return fmt.Errorf("processes %v", pids)
			}
			return nil
		})
		eventually(t, "a delta on its way", func() error {
			if m.handedOver(m.get(t)) {
				t.Fatal("the last delta was stored before etcd could be killed")
			}
			if faultStruck(t, "slow-delta") == 0 {
				return fmt.Errorf("the fault has not struck")
			}
			return nil
		})
		m.kill(t, m.from, "hortus etcd run", m.namespace())
		endFault(t, "slow-delta")
	}},
	{name: "the destination's etcd is killed right after its start", strike: func(t *testing.T, m movement) {
		m.kill(t, m.to, "etcd --name=etcd-main-0", m.namespace())
	}},
	{
		name: "the bucket stores without an answer, refuses, and is slow",
		before: func(t *testing.T, m movement) {
			// The first matching fault by name strikes. Each is removed when it has struck often enough.
			bucket := m.bucket(t)
			setFault(t, "bucket-1-lost", "lost", "PutObject", "--target", bucket, "--count", "1")
			setFault(t, "bucket-2-refuses", "rate-limit", "*", "--target", bucket, "--count", "5")
		},
		strike: func(t *testing.T, m movement) {
			bucket := m.bucket(t)
			m.awaitAPIServerStopped(t)
			setFault(t, "bucket-3-lost", "lost", "PutObject", "--target", bucket, "--count", "1")
			setFault(t, "bucket-4-refuses", "rate-limit", "*", "--target", bucket, "--count", "5")
			setFault(t, "bucket-5-slow", "slow", "*", "--target", bucket, "--count", "10", "--delay", "1s")
		},
		after: func(t *testing.T, m movement) {
			for _, name := range []string{
				"bucket-1-lost", "bucket-2-refuses", "bucket-3-lost", "bucket-4-refuses", "bucket-5-slow",
			} {
				endFault(t, name)
			}
		},
	},
	{name: "the source is cut off from the garden and the bucket when the API server has stopped",
		strike: func(t *testing.T, m movement) {
			m.awaitAPIServerStopped(t)
			heal := cutOff(t, networkOf(m.instances[m.from]), cloudAddress, gardenAddress)
			defer heal()
			eventually(t, "a source that has been silent for 10 s", func() error {
				if silent := silenceOf(t, m.from); silent < 10*time.Second {
					return fmt.Errorf("its Lease was renewed %s ago", silent)
				}
				return nil
			})
		}},
}

// TestMoveSurvivesFaults moves a Shoot back and forth with one fault each time. Every move succeeds nevertheless; in
// the end no acknowledged write is lost, and all responses to clients are linearizable.
func TestMoveSurvivesFaults(t *testing.T) {
	story(t, everything)
	const name = "nomad"
	seeds := []string{"local-1", "local-2"}
	instances := map[string]string{}
	for seed, instance := range map[string]string{seeds[0]: "garden", seeds[1]: "seed-2"} {
		instances[seed], _, _ = strings.Cut(instanceOf(t, instance), ",")
	}
	applyShootOn(t, "shoot-workerless.yaml", name, seeds[0])
	awaitSucceeded(t, name)
	kubeconfig := shootKubeconfig(t, name)
	server := kubectl(t, kubeconfig, "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.tls-server-name}")
	w := startWriter(t, kubeconfig)
	r := startRegisters(t, kubeconfig)
	for i, f := range moveFaults {
		m := movement{shoot: name, from: seeds[i%2], to: seeds[(i+1)%2], instances: instances}
		step(t, f.name, func(t *testing.T) { m.endure(t, f, w) })
	}
	readdress(t, kubeconfig, server)
	r.check(t)
	t.Logf("%d acknowledged writes of the writer", w.check(t, kubeconfig))
}

// movement is one move of a Shoot.
type movement struct {
	shoot, from, to string
	// instances are the IDs of the seeds' instances.
	instances map[string]string
}

// endure moves the Shoot under a fault, and waits until the source is empty.
func (m movement) endure(t *testing.T, f moveFault, w *writer) {
	for _, part := range []string{"kube-apiserver ", "hortus etcd run", "etcd --name=etcd-main-0"} {
		if len(m.processes(t, m.from, part, m.namespace())) == 0 {
			t.Fatalf("no process of %s was found on %s", part, m.from)
		}
	}
	if f.before != nil {
		f.before(t, m)
	}
	w.longestGap()
	start := time.Now()
	type result struct {
		out string
		err error
	}
	moved := make(chan result, 1)
	go func() {
		out, err := run(t, filepath.Join(repository, ".build",
			"hortus"), "move", "shoot", m.shoot, "-n", projectNS, "--to", m.to)
		moved <- result{out, err}
	}()
	f.strike(t, m)
	awaitShoot(t, m.shoot, "Restore Succeeded on "+m.to, func(o *unstructured.Unstructured) bool {
		return m.handedOver(o) && lastOperation(o, "type") == "Restore" && succeeded(o)
	})
	took := time.Since(start)
	if r := <-moved; r.err != nil {
		t.Errorf("hortus move shoot: %v\n%s", r.err, r.out)
	}
	acknowledged := w.acknowledged()
	eventually(t, "a write that is acknowledged by "+m.to, func() error {
		if w.acknowledged() == acknowledged {
			return fmt.Errorf("the last write was acknowledged %s ago", w.silent())
		}
		return nil
	})
	gap, failed := w.longestGap()
	requests := 0
	for _, n := range failed {
		requests += n
	}
	t.Logf("moved in %s, longest time without an acknowledged write %s, %d failed requests",
		took.Round(100*time.Millisecond), gap.Round(time.Millisecond), requests)
	if f.after != nil {
		f.after(t, m)
	}
	awaitLeft(t, m.shoot, m.from)
}

func (m movement) namespace() string { return "shoot--dev--" + m.shoot }

// get reads the Shoot.
func (m movement) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := dynamicClient(t, kubeconfigOf("garden")).Resource(shoots).Namespace(projectNS).Get(t.Context(), m.shoot,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// seedIn is the seed that runs the control plane of a Shoot.
func seedIn(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	seed, _, _ := unstructured.NestedString(o.Object, "status", "seedName")
	return seed
}

// handedOver reports whether the source has handed the control plane over.
func (m movement) handedOver(o *unstructured.Unstructured) bool { return seedIn(o) == m.to }

// awaitAPIServerStopped waits until the source has stopped the API server: from then on clients wait for the end of the
// move.
func (m movement) awaitAPIServerStopped(t *testing.T) {
	t.Helper()
	deployments := dynamicClient(t, adminOf(m.from)).
		Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(m.namespace())
	eventually(t, "the API server to be stopped on "+m.from, func() error {
		d, err := deployments.Get(t.Context(), "kube-apiserver", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas"); replicas > 0 {
			return fmt.Errorf("spec.replicas is %d", replicas)
		}
		return nil
	})
	m.logState(t, "the API server is stopped")
}

// kill waits for processes of a part on a seed and kills them with SIGKILL.
func (m movement) kill(t *testing.T, seed, part, word string) {
	t.Helper()
	eventually(t, part+" runs on "+seed, func() error {
		pids := m.processes(t, seed, part, word)
		if len(pids) == 0 {
			return fmt.Errorf("no process")
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatalf("kill %s: %v", part, err)
			}
		}
		m.logState(t, fmt.Sprintf("killed %s on %s (%d processes)", part, seed, len(pids)))
		return nil
	})
}

func (m movement) logState(t *testing.T, what string) {
	t.Helper()
	o := m.get(t)
	t.Logf("%s; Shoot on %s: %s %s: %s", what, seedIn(o), lastOperation(o, "type"), lastOperation(o, "state"),
		lastOperation(o, "description"))
}

// processes are those of a part on a seed that have a word in their command lines. Their cgroups are below that of the
// seed's machine.
func (m movement) processes(t *testing.T, seed, part, word string) []int {
	t.Helper()
	parent := "/hortus/" + m.instances[seed] + "/"
	return slices.DeleteFunc(processesOf(t, part), func(pid int) bool {
		cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			return true // Ended meanwhile.
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.Contains(string(cgroups), parent) || !strings.Contains(string(line), word)
	})
}

// setFault makes the cloud fail until endFault, at the latest until the end of the test.
func setFault(t *testing.T, name, kind, operation string, flags ...string) {
	t.Helper()
	hortus(t, append([]string{"cloud", "faults", "set", kind, operation, "--name", name}, flags...)...)
	t.Cleanup(func() {
		_, _ = run(t, filepath.Join(repository, ".build", "hortus"), "cloud", "faults", "delete", name)
	})
}

// spent stands for a fault that has struck as often as configured.
const spent = -1

// faultStruck returns how often a fault has struck, or spent.
func faultStruck(t *testing.T, name string) int {
	t.Helper()
	var list struct {
		Items []struct {
			Name   string
			Struck int
		}
	}
	eventually(t, "a list of faults", func() error { // The cloud may be restarting.
		out, err := run(t, filepath.Join(repository, ".build", "hortus"), "cloud", "faults", "list", "-o", "json")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return json.Unmarshal([]byte(out), &list)
	})
	for _, f := range list.Items {
		if f.Name == name {
			return f.Struck
		}
	}
	return spent
}

// endFault ends a fault, which has to have struck.
func endFault(t *testing.T, name string) {
	t.Helper()
	switch struck := faultStruck(t, name); struck {
	case spent:
		t.Logf("fault %s has struck as often as configured", name)
		return
	case 0:
		t.Errorf("fault %s has not struck", name)
	default:
		t.Logf("fault %s has struck %d times", name, struck)
	}
	// It may be spent meanwhile.
	out, err := run(t, filepath.Join(repository, ".build", "hortus"), "cloud", "faults", "delete", name)
	if err != nil && faultStruck(t, name) != spent {
		t.Errorf("end fault %s: %v\n%s", name, err, out)
	}
}

// bucket has the backups of the Shoot.
func (m movement) bucket(t *testing.T) string {
	t.Helper()
	garden := kubeconfigOf("garden")
	uid := kubectl(t, garden, "-n", projectNS, "get", "shoot", m.shoot, "-o", "jsonpath={.status.uid}")
	return kubectl(t, garden, "-n", projectNS, "get", "backupentry", m.namespace()+"--"+uid, "-o",
		"jsonpath={.spec.bucketName}")
}

// silenceOf returns the time since the last renewal of a gardenlet's Lease in the garden.
func silenceOf(t *testing.T, seed string) time.Duration {
	t.Helper()
	return time.Since(renewalOf(t, seed))
}

// renewalOf is when a seed has last renewed its Lease in the garden.
func renewalOf(t *testing.T, seed string) time.Time {
	t.Helper()
	out := kubectl(t, kubeconfigOf("garden"), "-n", "gardener-system-seed-lease", "get", "lease", seed, "-o",
		"jsonpath={.spec.renewTime}")
	renewed, err := time.Parse(time.RFC3339Nano, out)
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}
