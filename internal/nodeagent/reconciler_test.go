package nodeagent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// agent is a Reconciler with its environment.
type agent struct {
	*testNode
	*Reconciler
	cluster client.Client
	clock   *testclock.FakeClock
	events  *record.FakeRecorder
}

func newAgent(t *testing.T, raw []byte, node *corev1.Node) *agent {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "osc", Namespace: "kube-system"}, Data: map[string][]byte{config.OSCDataKey: raw},
	}}
	if node != nil {
		objects = append(objects, node)
	}
	a := &agent{
		testNode: newNode(t), clock: testclock.NewFakeClock(time.Unix(1e9, 0)), events: record.NewFakeRecorder(10),
		cluster: fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
	}
	configuration := &config.Configuration{
		APIServer: config.APIServer{Server: "https://api", CABundle: []byte("ca")},
		Controllers: config.Controllers{OperatingSystemConfig: config.OperatingSystemConfig{
			SecretName: "osc", KubernetesVersion: "1.36.3", SyncPeriod: &metav1.Duration{Duration: time.Hour},
		}},
	}
	access := &Access{Root: a.root, Config: configuration, HostName: "node", Clock: a.clock}
	applier := a.applier()
	applier.BeforeUnits = access.PrepareKubelet
	a.Reconciler = &Reconciler{
		Client: a.cluster, Config: configuration, HostName: "node", Applier: applier, Access: access, Recorder: a.events,
		Clock: a.clock,
		InPlace: &InPlaceUpdater{
			Root: a.root, KubeletHealthy: func(context.Context) error { return nil }, Pods: podsOf(fake.NewClientset()),
			Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("not expected") },
		},
	}
	a.testNode.write(t, config.BootstrapTokenFile, "abcdef.0123456789abcdef\n")
	return a
}

func node(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: map[string]string{}}}
	if change != nil {
		change(n)
	}
	return n
}

func (a *agent) setSecret(t *testing.T, raw []byte) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := a.cluster.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "osc"}, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[config.OSCDataKey] = raw
	if err := a.cluster.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func (a *agent) node(t *testing.T) *corev1.Node {
	t.Helper()
	n := &corev1.Node{}
	if err := a.cluster.Get(t.Context(), client.ObjectKey{Name: "node"}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// reconcile runs the Reconciler, again if it has restarted itself or the kubelet has reported a change.
func (a *agent) reconcile(t *testing.T) (reconcile.Result, error) {
	t.Helper()
	for {
		before := len(a.units.Log())
		result, err := a.Reconcile(t.Context(), reconcile.Request{})
		restarted := strings.Contains(strings.Join(a.units.Log()[before:], ","), "restart "+config.UnitName)
		if !a.kubelet(t) && !restarted {
			return result, err
		}
	}
}

// kubelet reports the installed versions, and that the node is ready, as the kubelet does. It returns whether that is a
// change.
func (a *agent) kubelet(t *testing.T) bool {
	t.Helper()
	n := &corev1.Node{}
	if err := a.cluster.Get(t.Context(), client.ObjectKey{Name: "node"}, n); err != nil {
		return false // Not registered yet.
	}
	_, version, _ := strings.Cut(strings.TrimSuffix(a.read(t, config.KubeletBinary), "/bin/x"), ":")
	info := corev1.NodeSystemInfo{BootID: strings.TrimSpace(a.read(t, bootIDFile)), KubeletVersion: "v" + version}
	if n.Status.NodeInfo == info {
		return false
	}
	n.Status.NodeInfo = info
	n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady
	}), corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	if err := a.cluster.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return true
}

func (a *agent) mustReconcile(t *testing.T) reconcile.Result {
	t.Helper()
	result, err := a.reconcile(t)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestReconcileNewNode(t *testing.T) {
	raw := rawOSC(t, nil)
	a := newAgent(t, raw, nil)
	a.mustReconcile(t) // Before the kubelet has registered the node.
	if kubeconfig := a.read(t, config.KubeletBootstrapKubeconfig); !strings.Contains(kubeconfig,
		"abcdef.0123456789abcdef") {
		t.Errorf("the kubelet cannot join: %s", kubeconfig)
	}
	if err := a.cluster.Create(t.Context(), node(nil)); err != nil {
		t.Fatal(err)
	}
	a.testNode.write(t, config.KubeletKubeconfig, "joined")
	result := a.mustReconcile(t)
	if result.RequeueAfter != time.Hour {
		t.Errorf("the next check is after %s, want the sync period", result.RequeueAfter)
	}
	got := a.node(t)
	if got.Annotations[config.AnnotationChecksum] != change.Checksum(raw) ||
		got.Labels[corev1beta1.LabelWorkerKubernetesVersion] != "1.36.3" {
		t.Errorf("node after everything is applied: %v %v", got.Labels, got.Annotations)
	}
	for _, path := range []string{config.BootstrapTokenFile, config.KubeletBootstrapKubeconfig} {
		if a.read(t, path) != "(missing)" {
			t.Errorf("%s is left", path)
		}
	}
	if event := <-a.events.Events; !strings.Contains(event, "OSCApplied") {
		t.Errorf("event: %s", event)
	}
}

func TestReconcileWaitsItsTurn(t *testing.T) {
	a := newAgent(t, rawOSC(t, nil), node(nil))
	a.mustReconcile(t)
	n := a.node(t)
	n.Annotations[corev1beta1.AnnotationNodeAgentReconciliationDelay] = "3m"
	if err := a.cluster.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.setSecret(t, rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { setFile(s, "/etc/other", "2") }))
	a.clock.Step(time.Hour) // The time counts from the observation of the change.
	if result := a.mustReconcile(t); result.RequeueAfter != 3*time.Minute {
		t.Errorf("waits %s, want 3m", result.RequeueAfter)
	}
	a.clock.Step(2 * time.Minute)
	if result := a.mustReconcile(t); result.RequeueAfter != time.Minute || a.read(t, "/etc/other") != "1" {
		t.Errorf("waits %s, want 1m; /etc/other is %s", result.RequeueAfter, a.read(t, "/etc/other"))
	}
	a.clock.Step(time.Minute)
	if a.mustReconcile(t); a.read(t, "/etc/other") != "2" {
		t.Error("the change is not applied when it is the node's turn")
	}
}

// TestNodesWaitForTheirTurnOnce: a node that has begun with a change continues with it after a restart of the agent,
// and one that has been drained for an update in place begins at once.
func TestNodesWaitForTheirTurnOnce(t *testing.T) {
	slow := func(n *corev1.Node) *corev1.Node {
		n.Annotations = map[string]string{corev1beta1.AnnotationNodeAgentReconciliationDelay: "3m"}
		return n
	}
	t.Run("restart", func(t *testing.T) {
		a := newAgent(t, rawOSC(t, nil), slow(node(nil)))
		a.mustReconcile(t)
		a.setSecret(t, rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) { setFile(s, "/etc/other", "2") }))
		a.mustReconcile(t)
		a.clock.Step(3 * time.Minute)
		a.Applier.BeforeUnits = func(context.Context) error { return errors.New("killed") }
		if _, err := a.reconcile(t); err == nil {
			t.Fatal("the change was not started")
		}
		a.Applier.BeforeUnits, a.seen = nil, pending{} // A new process.
		if result := a.mustReconcile(t); result.RequeueAfter != time.Hour {
			t.Errorf("waits %s in the middle of a change", result.RequeueAfter)
		}
	})
	t.Run("drained", func(t *testing.T) {
		a := newAgent(t, inPlaceOSC(t, "1.0.0", "1.35.4", nil), slow(node(nil)))
		a.InPlace.Pods = podsOf(fake.NewClientset())
		a.mustReconcile(t)
		a.setSecret(t, inPlaceOSC(t, "1.0.0", "1.36.3", nil))
		a.mustReconcile(t)
		a.drained(t)
		if a.mustReconcile(t); a.read(t, config.KubeletBinary) != "kubelet:1.36.3/bin/x" {
			t.Error("a drained node waits for its turn")
		}
	})
}

func TestReconcileDoesNothingTwice(t *testing.T) {
	a := newAgent(t, rawOSC(t, nil), node(nil))
	a.mustReconcile(t)
	before := len(a.units.Log())
	a.mustReconcile(t)
	if diff := cmp.Diff([]string{}, a.units.Log()[before:]); diff != "" {
		t.Errorf("operations of a second round (-want +got):\n%s", diff)
	}
}

func inPlaceOSC(t *testing.T, os, kubelet string, update func(*extensionsv1alpha1.OperatingSystemConfigSpec)) []byte {
	return rawOSC(t, func(s *extensionsv1alpha1.OperatingSystemConfigSpec) {
		s.InPlaceUpdates = &extensionsv1alpha1.InPlaceUpdates{OperatingSystemVersion: os, KubeletVersion: kubelet}
		setImage(s, config.KubeletBinary, "kubelet:"+kubelet)
		if update != nil {
			update(s)
		}
	})
}

// drained sets the condition that the machine controller sets when it has drained the node.
func (a *agent) drained(t *testing.T) {
	t.Helper()
	n := a.node(t)
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: conditionInPlaceUpdate, Status: corev1.ConditionTrue, Reason: reasonReadyForUpdate,
	})
	if err := a.cluster.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func TestInPlaceUpdateOfTheKubelet(t *testing.T) {
	a := newAgent(t, inPlaceOSC(t, "1.0.0", "1.35.4", nil), node(nil))
	daemons := fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon", Namespace: "kube-system"}, Spec: corev1.PodSpec{NodeName: "node"},
	})
	a.InPlace.Pods = podsOf(daemons)
	a.mustReconcile(t)

	next := inPlaceOSC(t, "1.0.0", "1.36.3", nil)
	a.setSecret(t, next)
	if a.mustReconcile(t); a.read(t, config.KubeletBinary) != "kubelet:1.35.4/bin/x" {
		t.Fatal("the kubelet was replaced under running pods")
	}
	a.drained(t)
	a.mustReconcile(t)
	if got := a.read(t, config.KubeletBinary); got != "kubelet:1.36.3/bin/x" {
		t.Errorf("kubelet on a drained node: %s", got)
	}
	n := a.node(t)
	if n.Labels[corev1beta1.LabelNodeUpdateResult] != corev1beta1.NodeUpdateResultSuccessful ||
		n.Annotations[config.AnnotationChecksum] != change.Checksum(next) {
		t.Errorf("node after the update: %v %v", n.Labels, n.Annotations)
	}
	pods, err := daemons.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 0 {
		t.Errorf("pods after the update: %d, %v", len(pods.Items), err)
	}
}

func TestInPlaceOrderDoesNotHoldUpPatches(t *testing.T) {
	a := newAgent(t, inPlaceOSC(t, "1.0.0", "1.35.4", nil), node(nil))
	a.mustReconcile(t)
	a.setSecret(t, inPlaceOSC(t, "1.0.0", "1.35.9", nil))
	if a.mustReconcile(t); a.read(t, config.KubeletBinary) != "kubelet:1.35.9/bin/x" {
		t.Error("a patch update of the kubelet waits for a drain")
	}
}

func TestInPlaceUpdateOfTheOperatingSystem(t *testing.T) {
	withCommand := func(os string) []byte {
		raw := inPlaceOSC(t, os, "1.35.4", nil)
		return append(raw, []byte("status:\n  inPlaceUpdates: {osUpdate: {command: /bin/update, args: [x]}}\n")...)
	}
	for name, tc := range map[string]struct {
		run    func(a *agent) ([]byte, error)
		failed string // Text of the annotation; empty for success.
	}{
		"the command installs the version": {
			run: func(a *agent) ([]byte, error) {
				a.testNode.write(t, bootIDFile, "boot-2\n")
				return nil, os.WriteFile(filepath.Join(a.root, "/etc/os-release"), []byte("PRETTY_NAME=\"X 1.1.0\"\n"), 0o644)
			},
		},
		"the command fails": {
			run:    func(*agent) ([]byte, error) { return []byte("invalid arguments\n"), errors.New("exit status 2") },
			failed: "the update of the operating system failed: exit status 2: invalid arguments",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent(t, withCommand("1.0.0"), node(nil))
			a.mustReconcile(t)
			a.drained(t)
			a.InPlace.Run = func(context.Context, string, ...string) ([]byte, error) { return tc.run(a) }
			a.setSecret(t, withCommand("1.1.0"))
			_, err := a.reconcile(t)
			n := a.node(t)
			if failed := err != nil; failed != (tc.failed != "") ||
				n.Annotations[corev1beta1.AnnotationNodeUpdateFailedReason] != tc.failed {
				t.Errorf("error %v, annotations %v", err, n.Annotations)
			}
			want := corev1beta1.NodeUpdateResultSuccessful
			if tc.failed != "" {
				want = corev1beta1.NodeUpdateResultFailed
			}
			if got := n.Labels[corev1beta1.LabelNodeUpdateResult]; got != want {
				t.Errorf("result is %q, want %q", got, want)
			}
			if tc.failed != "" {
				// An operator repairs the node; the next attempt succeeds and clears the failure.
				a.testNode.write(t, "/etc/os-release", "PRETTY_NAME=\"X 1.1.0\"\n")
				a.mustReconcile(t)
				if n = a.node(t); n.Labels[corev1beta1.LabelNodeUpdateResult] != corev1beta1.NodeUpdateResultSuccessful ||
					n.Annotations[corev1beta1.AnnotationNodeUpdateFailedReason] != "" {
					t.Errorf("after the repair: %v %v", n.Labels, n.Annotations)
				}
			}
		})
	}
}

func TestOSStateNext(t *testing.T) {
	now := time.Unix(1e9, 0)
	ended := func(ago time.Duration) *metav1.Time { at := metav1.NewTime(now.Add(-ago)); return &at }
	const rolledBack = "the update of the operating system to 1.1.0 was rolled back: it runs 1.0.0"
	for name, tc := range map[string]struct {
		state  osState
		want   osStep
		reason string
	}{
		"nothing was tried": {osState{}, osRun, ""},
		"another version was tried before": {osState{
			announced: "1.0.5", begun: &change.OSUpdate{Version: "1.0.5", BootID: "a"},
		}, osRun, ""},
		"the command failed": {osState{begun: &change.OSUpdate{Version: "1.1.0", BootID: "b"}}, osRun, ""},
		"the command was interrupted in this boot": {
			osState{announced: "1.1.0", begun: &change.OSUpdate{Version: "1.1.0", BootID: "b"}}, osRun, "",
		},
		"the machine is shutting down": {
			osState{announced: "1.1.0", begun: &change.OSUpdate{Version: "1.1.0", BootID: "b", Ended: ended(time.Minute)}},
			osAwaitReboot, "",
		},
		"the machine does not shut down": {
			osState{announced: "1.1.0", begun: &change.OSUpdate{Version: "1.1.0", BootID: "b", Ended: ended(osRebootLimit)}},
			osFailed,
			"the update of the operating system to 1.1.0 did not restart the machine within 5m0s: it runs 1.0.0",
		},
		"another boot runs the old version": {
			osState{announced: "1.1.0", begun: &change.OSUpdate{Version: "1.1.0", BootID: "a"}}, osFailed, rolledBack,
		},
		"the boot of the update is not known": {osState{announced: "1.1.0"}, osFailed, rolledBack},
		"the record is of another version": {
			osState{announced: "1.1.0", begun: &change.OSUpdate{Version: "1.0.5", BootID: "b"}}, osFailed, rolledBack,
		},
		"another boot runs the new version": {
			osState{installed: "1.1.0", announced: "1.1.0", begun: &change.OSUpdate{Version: "1.1.0", BootID: "a"}}, osDone, "",
		},
		"the new version is installed, and the machine is shutting down": {osState{
			installed: "1.1.0", announced: "1.1.0",
			begun: &change.OSUpdate{Version: "1.1.0", BootID: "b", Ended: ended(time.Minute)},
		}, osAwaitReboot, ""},
		"the new version is installed without a reboot": {osState{
			installed: "1.1.0", announced: "1.1.0",
			begun: &change.OSUpdate{Version: "1.1.0", BootID: "b", Ended: ended(osRebootLimit)},
		}, osDone, ""},
		"the version was installed by hand": {osState{installed: "1.1.0"}, osDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.state.wanted, tc.state.bootID, tc.state.now = "1.1.0", "b", now
			if tc.state.installed == "" {
				tc.state.installed = "1.0.0"
			}
			if step, reason := tc.state.next(); step != tc.want || reason != tc.reason {
				t.Errorf("next() = %q, %q; want %q, %q", step, reason, tc.want, tc.reason)
			}
		})
	}
}

// osUpdate is a drained node whose configuration requests version 1.1.0 of the operating system.
func osUpdate(t *testing.T) *agent {
	t.Helper()
	raw := func(os string) []byte {
		return append(inPlaceOSC(t, os, "1.35.4", nil),
			[]byte("status:\n  inPlaceUpdates: {osUpdate: {command: /bin/update}}\n")...)
	}
	a := newAgent(t, raw("1.0.0"), node(nil))
	a.mustReconcile(t)
	a.drained(t)
	a.setSecret(t, raw("1.1.0"))
	return a
}

func TestOperatingSystemThatRollsBack(t *testing.T) {
	a := osUpdate(t)
	runs := 0
	a.InPlace.Run = func(context.Context, string, ...string) ([]byte, error) { runs++; return nil, nil }
	a.mustReconcile(t)
	a.mustReconcile(t) // The machine is still shutting down.
	if result := a.node(t).Labels[corev1beta1.LabelNodeUpdateResult]; result != "" {
		t.Errorf("result before the machine was down: %q", result)
	}
	a.testNode.write(t, bootIDFile, "boot-2\n")
	for range 2 { // The failure is final for this version.
		if _, err := a.reconcile(t); err == nil || !strings.Contains(err.Error(), "rolled back") {
			t.Errorf("after a boot with the old version: %v", err)
		}
	}
	if runs != 1 {
		t.Errorf("the update ran %d times, want once", runs)
	}
}

// TestOperatingSystemUpdateIsInterrupted kills the node agent while the command runs.
func TestOperatingSystemUpdateIsInterrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		boot, installed string // State that the next process finds.
		runs            int
		result          string
	}{
		"the agent was restarted: the command runs again": {"boot-1", "1.0.0", 2, corev1beta1.NodeUpdateResultSuccessful},
		"the machine runs the new version":                {"boot-2", "1.1.0", 1, corev1beta1.NodeUpdateResultSuccessful},
		"the machine runs the old version":                {"boot-2", "1.0.0", 1, corev1beta1.NodeUpdateResultFailed},
	} {
		t.Run(name, func(t *testing.T) {
			a, runs := osUpdate(t), 0
			install := func(version string) { a.testNode.write(t, "/etc/os-release", "PRETTY_NAME=\"X "+version+"\"\n") }
			ctx, kill := context.WithCancel(t.Context())
			a.InPlace.Run = func(context.Context, string, ...string) ([]byte, error) {
				if runs++; runs == 1 {
					kill()
					return nil, errors.New("signal: killed")
				}
				install("1.1.0")
				a.testNode.write(t, bootIDFile, "boot-3\n")
				return nil, nil
			}
			if _, err := a.Reconcile(ctx, reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			a.testNode.write(t, bootIDFile, tc.boot+"\n")
			install(tc.installed)
			_, err := a.reconcile(t)
			if result := a.node(t).Labels[corev1beta1.LabelNodeUpdateResult]; result != tc.result || runs != tc.runs {
				t.Errorf("result %q after %d runs, want %q after %d; error %v", result, runs, tc.result, tc.runs, err)
			}
		})
	}
}

func TestUnitRestarter(t *testing.T) {
	a := newAgent(t, rawOSC(t, nil), node(func(n *corev1.Node) {
		n.Annotations[config.AnnotationRestartUnits] = "containerd.service, missing.service,," + config.UnitName
	}))
	a.testNode.write(t, unitDir+"/"+config.UnitName, "[Service]\nExecStart=agent\n")
	restarter := &UnitRestarter{Client: a.cluster, Units: a.units, Recorder: a.events, HostName: "node"}
	if _, err := restarter.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"restart containerd.service", "restart " + config.UnitName}, a.units.Log()); diff != "" {
		t.Errorf("operations mismatch (-want +got):\n%s", diff)
	}
	if _, left := a.node(t).Annotations[config.AnnotationRestartUnits]; left {
		t.Error("the annotation is still there")
	}
	if event := <-a.events.Events; !strings.Contains(event, "missing.service") {
		t.Errorf("event: %s", event)
	}
}

func TestFailing(t *testing.T) {
	start := time.Unix(0, 0)
	var state failing
	var restarts []time.Duration
	for at := time.Duration(0); at <= 5*time.Minute; at += healthPeriod {
		healthy := at == 40*time.Second // One success in between restarts the count.
		var restart bool
		if state, restart = state.next(start.Add(at), healthy); restart {
			restarts = append(restarts, at)
		}
	}
	want := []time.Duration{110 * time.Second, 170 * time.Second, 230 * time.Second, 290 * time.Second}
	if diff := cmp.Diff(want, restarts); diff != "" {
		t.Errorf("restarts mismatch (-want +got):\n%s", diff)
	}
}

func TestMachineName(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"the name from the machine controller": {"shoot--p--s-pool-z1-abc\n", "shoot--p--s-pool-z1-abc"},
		"a placeholder that was not replaced":  {config.MachineNamePlaceholder, "node"},
		"no name at all":                       {"", "node"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if tc.content != "" {
				n.write(t, config.MachineNameFile, tc.content)
			}
			got, err := (&Access{Root: n.root, HostName: "node"}).machineName()
			if err != nil || got != tc.want {
				t.Errorf("machineName = %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// podsOf simulates the kubelet's own access.
func podsOf(c kubernetes.Interface) func() (kubernetes.Interface, error) {
	return func() (kubernetes.Interface, error) { return c, nil }
}
