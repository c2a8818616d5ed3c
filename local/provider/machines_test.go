package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/machinecontrol"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/machine"
)

// startMachineControllers runs the library's controllers for the namespace. They register global metrics, so only one
// test may do this.
func (l *landscape) startMachineControllers(t *testing.T) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, l.Kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	manager, opts := machinecontrol.NewManager(), machine.DefaultOptions()
	for _, p := range []*machinecontrol.Process{manager, &opts.Process} {
		p.Namespace, p.LeaderElect = l.namespace, false
		p.HealthAddress, p.MetricsAddress = "127.0.0.1:0", "127.0.0.1:0"
		p.ControlKubeconfig, p.TargetKubeconfig = kubeconfig, kubeconfig
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- manager.Run(ctx, machinecontrol.RunManager) }()
	go func() { done <- machine.Run(ctx, opts) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Errorf("run machine controllers: %v", err)
		}
	})
}

// startKubelets registers a ready Node for every instance, which is what kubelets do.
func (l *landscape) startKubelets(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		registered := map[string]bool{}
		_ = l.cloud.Client.Watch(ctx, func(*cloud.EventList) {
			found, err := l.cloud.Client.ListInstances(ctx, cloud.Filter{})
			if err != nil {
				return
			}
			for _, i := range found {
				if i.State == cloud.StateRunning && !registered[i.ID] {
					registered[i.ID] = l.register(ctx, i) == nil
				}
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (l *landscape) register(ctx context.Context, i cloud.Instance) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.Name, Labels: map[string]string{corev1.LabelHostname: i.Name}},
		Spec:       corev1.NodeSpec{ProviderID: i.ProviderID},
	}
	if err := l.Client.Create(ctx, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	}}
	return l.Client.Status().Patch(ctx, node, client.MergeFrom(before))
}

func (l *landscape) worker(infra *extensionsv1alpha1.Infrastructure) *extensionsv1alpha1.Worker {
	return &extensionsv1alpha1.Worker{ObjectMeta: l.meta("s"), Spec: extensionsv1alpha1.WorkerSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "local"}, Region: "local", SecretRef: l.secretRef,
		InfrastructureProviderStatus: infra.Status.ProviderStatus,
		Pools: []extensionsv1alpha1.WorkerPool{{
			Name: "pool", MachineType: "small", Minimum: 2, Maximum: 2, MaxSurge: intstr.FromInt32(1),
			MaxUnavailable:      intstr.FromInt32(0),
			MachineImage:        extensionsv1alpha1.MachineImage{Name: "hortus-machine", Version: "1.0.0"},
			NodeAgentSecretName: ptr.To("key-1"), KubernetesVersion: ptr.To("1.36.3"), Zones: []string{"local-a", "local-b"},
			UserDataSecretRef: corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "osc-result-pool-init"}, Key: "cloud_config",
			},
			NodeTemplate: &extensionsv1alpha1.NodeTemplate{Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi"),
			}},
		}},
	}}
}

// waitForBuild creates a Worker whose version is being built, and ends the build when the Worker says so: without an
// error, and without machines, which would be replaced after their creation timeout.
func (l *landscape) waitForBuild(t *testing.T, w *extensionsv1alpha1.Worker) {
	t.Helper()
	if _, err := l.cloud.Client.SetFault(t.Context(), cloud.Fault{
		Name: "build", Type: cloud.FaultBuilding, Operation: "PrepareImage", Target: l.namespace,
	}); err != nil {
		t.Fatal(err)
	}
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	eventually(t, func() string {
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err.Error()
		}
		last := w.Status.LastOperation
		if last == nil || last.State != corev1beta1.LastOperationStateProcessing || w.Status.LastError != nil ||
			!strings.Contains(last.Description, `machines of pool "pool" wait: hortus.dev/kubelet:v1.36.3 is being built`) {
			return fmt.Sprintf("last operation %+v, error %+v", last, w.Status.LastError)
		}
		return ""
	})
	if found := l.instances(t); len(found) > 0 {
		t.Errorf("instances before the version is there: %+v", found)
	}
	if err := l.cloud.Client.DeleteFault(t.Context(), "build"); err != nil {
		t.Fatal(err)
	}
}

// TestMachines creates, changes and deletes a Worker with the real machine controllers.
func TestMachines(t *testing.T) {
	l := startLandscape(t)
	l.startMachineControllers(t)
	l.startKubelets(t)
	infra, osc := l.infrastructure(), l.osc()
	for _, obj := range []extensionsv1alpha1.Object{infra, osc} {
		l.request(t, obj, extensionsv1alpha1.OperationReconcile)
		l.succeeded(t, obj)
	}

	w := l.worker(infra)
	l.waitForBuild(t, w)
	l.succeeded(t, w)
	if got := l.images(t); !slices.Equal(got, []string{"hortus.dev/machine:1.0.0", "hortus.dev/machine:1.0.0"}) {
		t.Fatalf("images of the instances are %q", got)
	}
	if len(w.Status.MachineDeployments) != 2 || w.Status.MachineDeploymentsLastUpdateTime == nil {
		t.Errorf("machine deployments in the status are %+v, want one per zone", w.Status.MachineDeployments)
	}
	zones := map[string]bool{}
	for _, i := range l.instances(t) {
		zones[i.Zone] = true
	}
	if len(zones) != 2 {
		t.Errorf("instances are in zones %v, want both", zones)
	}

	// A new image replaces the machines, and their old classes are deleted.
	w.Spec.Pools[0].MachineImage.Version, w.Spec.Pools[0].NodeAgentSecretName = "1.1.0", ptr.To("key-2")
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	if got := l.images(t); !slices.Equal(got, []string{"hortus.dev/machine:1.1.0", "hortus.dev/machine:1.1.0"}) {
		t.Fatalf("images of the instances after the update are %q", got)
	}
	classes := &machinev1alpha1.MachineClassList{}
	if err := l.Client.List(t.Context(), classes, client.InNamespace(l.namespace)); err != nil || len(classes.Items) != 2 {
		t.Errorf("there are %d classes (%v), want 2", len(classes.Items), err)
	}

	// An exceeded quota is reported with its code, and the machines are created when it is raised.
	l.setInstanceQuota(t, 2)
	w.Spec.Pools[0].Minimum, w.Spec.Pools[0].Maximum = 3, 3
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	eventually(t, func() string {
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err.Error()
		}
		if e := w.Status.LastError; e == nil ||
			!slices.Equal(e.Codes, []corev1beta1.ErrorCode{corev1beta1.ErrorInfraQuotaExceeded}) {
			return fmt.Sprintf("lastError is %+v, want code %s", e, corev1beta1.ErrorInfraQuotaExceeded)
		}
		return ""
	})
	l.setInstanceQuota(t, 10)
	raised := time.Now()
	l.succeeded(t, w)
	t.Logf("success came %s after the quota was raised", time.Since(raised).Round(time.Second))
	if n := len(l.instances(t)); n != 3 {
		t.Errorf("there are %d instances, want 3", n)
	}

	l.updateInPlace(t, w)
	l.hibernateDuringUpdate(t, w)

	l.gone(t, w)
	if n := len(l.instances(t)); n != 0 {
		t.Errorf("there are %d instances after deletion, want none", n)
	}
	nodes := &corev1.NodeList{}
	if err := l.Client.List(t.Context(), nodes); err != nil || len(nodes.Items) != 0 {
		t.Errorf("there are %d nodes (%v) after deletion, want none", len(nodes.Items), err)
	}
	l.gone(t, osc)
	l.gone(t, infra)
}

// images returns the images of the Shoot's instances, sorted; user data must have been completed for each of them.
func (l *landscape) images(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, i := range l.instances(t) {
		if !strings.HasPrefix(i.Name, l.namespace+"-pool-z") {
			t.Errorf("instance is named %q", i.Name)
		}
		out = append(out, i.Image)
	}
	slices.Sort(out)
	return out
}

func (l *landscape) setInstanceQuota(t *testing.T, instances int) {
	t.Helper()
	if _, err := l.cloud.Client.SetQuota(t.Context(), l.account(t), cloud.Limits{Instances: instances}); err != nil {
		t.Fatal(err)
	}
}

func (l *landscape) account(t *testing.T) string {
	t.Helper()
	about, err := l.cloud.Client.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return about.Account
}

// updateInPlace adds a pool whose machines are updated in place, and updates it.
func (l *landscape) updateInPlace(t *testing.T, w *extensionsv1alpha1.Worker) {
	t.Helper()
	pool := *w.Spec.Pools[0].DeepCopy()
	pool.Name, pool.UpdateStrategy, pool.NodeAgentSecretName = "inplace", ptr.To(corev1beta1.AutoInPlaceUpdate),
		ptr.To("gardener-node-agent-inplace")
	pool.Minimum, pool.Maximum, pool.Zones = 2, 2, nil
	pool.MaxSurge, pool.MaxUnavailable = intstr.FromInt32(0), intstr.FromInt32(1)
	pool.MachineControllerManagerSettings = &extensionsv1alpha1.MachineControllerManagerSettings{
		DisableHealthTimeout: ptr.To(true),
	}
	w.Spec.Pools = append(w.Spec.Pools, pool)
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	before := l.providerIDs(t, pool.Name)
	hash := w.Status.InPlaceUpdates.WorkerPoolToHashMap[pool.Name]
	if len(before) != 2 || hash == "" {
		t.Fatalf("instances are %q and the hash %q, want two and one", before, hash)
	}

	w.Spec.Pools[1].MachineImage.Version = "1.0.0"
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	eventually(t, func() string {
		l.actAsNodeAgents(t)
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err.Error()
		}
		op := w.Status.LastOperation
		if _, asked := w.Annotations[extensionsv1alpha1.AnnotationOperation]; asked ||
			op.State != corev1beta1.LastOperationStateSucceeded {
			return "the update is not done: " + op.Description
		}
		return ""
	})
	if after := l.providerIDs(t, pool.Name); !slices.Equal(before, after) {
		t.Errorf("instances are %q, want the same as before, %q", after, before)
	}
	if now := w.Status.InPlaceUpdates.WorkerPoolToHashMap[pool.Name]; now == hash {
		t.Errorf("the hash is still %q", now)
	}
}

// hibernateDuringUpdate hibernates the Shoot while one of two machines has been updated and the other waits for its
// user, so that MachineSets of both versions have machines. It wakes up with machines of the new version.
func (l *landscape) hibernateDuringUpdate(t *testing.T, w *extensionsv1alpha1.Worker) {
	t.Helper()
	pool := &w.Spec.Pools[1]
	hash := w.Status.InPlaceUpdates.WorkerPoolToHashMap[pool.Name]
	pool.UpdateStrategy, pool.MaxUnavailable = ptr.To(corev1beta1.ManualInPlaceUpdate), intstr.FromInt32(0)
	pool.MachineImage.Version = "1.1.0"
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	l.selectCandidate(t)
	eventually(t, func() string {
		l.actAsNodeAgents(t)
		d := &machinev1alpha1.MachineDeployment{}
		key := client.ObjectKey{Namespace: l.namespace, Name: l.namespace + "-" + w.Spec.Pools[1].Name + "-z1"}
		if err := l.Client.Get(t.Context(), key, d); err != nil {
			return err.Error()
		}
		if d.Status.UpdatedReplicas != 1 || d.Status.Replicas != 2 {
			return fmt.Sprintf("%d of %d machines are updated", d.Status.UpdatedReplicas, d.Status.Replicas)
		}
		return ""
	})

	l.hibernate(t, true)
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	if left := l.instances(t); len(left) > 0 {
		t.Errorf("there are %d instances during hibernation, want none", len(left))
	}

	l.hibernate(t, false)
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	var images []string
	for _, i := range l.instances(t) {
		if i.Tags["cluster.hortus.dev/pool"] == w.Spec.Pools[1].Name {
			images = append(images, i.Image)
		}
	}
	if want := []string{"hortus.dev/machine:1.1.0", "hortus.dev/machine:1.1.0"}; !slices.Equal(images, want) {
		t.Errorf("after the wake-up the pool has instances of %q, want %q", images, want)
	}
	if now := w.Status.InPlaceUpdates.WorkerPoolToHashMap[w.Spec.Pools[1].Name]; now == hash || now == "" {
		t.Errorf("after the wake-up the hash is %q, want another one than %q", now, hash)
	}
}

// selectCandidate selects one node for an update in place, as users do, as soon as one is a candidate.
func (l *landscape) selectCandidate(t *testing.T) {
	t.Helper()
	eventually(t, func() string {
		nodes := &corev1.NodeList{}
		if err := l.Client.List(t.Context(), nodes,
			client.MatchingLabels{machinev1alpha1.LabelKeyNodeCandidateForUpdate: "true"}); err != nil {
			return err.Error()
		}
		if len(nodes.Items) == 0 {
			return "no node is a candidate"
		}
		before := nodes.Items[0].DeepCopy()
		nodes.Items[0].Labels[machinev1alpha1.LabelKeyNodeSelectedForUpdate] = "true"
		if err := l.Client.Patch(t.Context(), &nodes.Items[0], client.MergeFrom(before)); err != nil {
			return err.Error()
		}
		return ""
	})
}

// hibernate changes the Shoot in the Cluster.
func (l *landscape) hibernate(t *testing.T, enabled bool) {
	t.Helper()
	cluster := &extensionsv1alpha1.Cluster{}
	if err := l.Client.Get(t.Context(), client.ObjectKey{Name: l.namespace}, cluster); err != nil {
		t.Fatal(err)
	}
	before, shoot := cluster.DeepCopy(), &corev1beta1.Shoot{}
	if err := json.Unmarshal(cluster.Spec.Shoot.Raw, shoot); err != nil {
		t.Fatal(err)
	}
	shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &enabled}
	raw, err := json.Marshal(shoot)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Spec.Shoot.Raw = raw
	if err := l.Client.Patch(t.Context(), cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (l *landscape) providerIDs(t *testing.T, pool string) []string {
	t.Helper()
	var out []string
	for _, i := range l.instances(t) {
		if i.Tags["cluster.hortus.dev/pool"] == pool {
			out = append(out, i.ProviderID)
		}
	}
	slices.Sort(out)
	return out
}

// actAsNodeAgents reports success for every node that is ready for its update.
func (l *landscape) actAsNodeAgents(t *testing.T) {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := l.Client.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		for _, c := range node.Status.Conditions {
			if c.Type != machinev1alpha1.NodeInPlaceUpdate || c.Reason != machinev1alpha1.ReadyForUpdate ||
				node.Labels[machinev1alpha1.LabelKeyNodeUpdateResult] != "" {
				continue
			}
			before := node.DeepCopy()
			node.Labels[machinev1alpha1.LabelKeyNodeUpdateResult] = machinev1alpha1.LabelValueNodeUpdateSuccessful
			if err := l.Client.Patch(t.Context(), node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	}
}
