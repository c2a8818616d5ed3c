package provider_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/worker"
	"hortus.dev/hortus/internal/machinecontrol"
	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/provider/machine"
)

// runMachineControllers makes the test program run the machine controllers instead of tests: two seeds have two
// processes.
const runMachineControllers = "HORTUS_TEST_MACHINE_CONTROLLERS"

func machineControllers() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for _, cmd := range []*cobra.Command{machinecontrol.NewCommand(), machine.NewCommand()} {
		cmd.SetArgs(os.Args[1:])
		group.Go(func() error { return cmd.ExecuteContext(ctx) })
	}
	if err := group.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// machineControllersOfSeed runs the machine controllers as a process until the returned function is called.
func (l *landscape) machineControllersOfSeed(t *testing.T) (stop func()) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, l.Kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "--control-kubeconfig="+kubeconfig, "--target-kubeconfig="+kubeconfig,
		"--namespace="+l.namespace, "--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
		"--leader-elect=false")
	cmd.Env = append(os.Environ(), runMachineControllers+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // It may have ended, which Wait reports.
		if err := cmd.Wait(); err != nil {
			t.Errorf("machine controllers: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// machineLists are all kinds of machine objects.
func machineLists() []client.ObjectList {
	return []client.ObjectList{
		&machinev1alpha1.MachineList{}, &machinev1alpha1.MachineSetList{}, &machinev1alpha1.MachineDeploymentList{},
		&machinev1alpha1.MachineClassList{},
	}
}

// forgetMachines removes the machine objects and keeps their instances.
func (l *landscape) forgetMachines(t *testing.T) {
	t.Helper()
	for _, list := range append(machineLists(), &corev1.SecretList{}) {
		options := []client.ListOption{client.InNamespace(l.namespace)}
		if _, ok := list.(*corev1.SecretList); ok {
			options = append(options, client.MatchingLabels{"gardener.cloud/purpose": "machineclass"})
		}
		if err := l.Client.List(t.Context(), list, options...); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := l.Client.Patch(t.Context(), object, patch); err != nil {
				return err
			}
			return client.IgnoreNotFound(l.Client.Delete(t.Context(), object))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// machineState is the state of the machines that the gardenlet saves.
func (l *landscape) machineState(t *testing.T) worker.State {
	t.Helper()
	var (
		deployments machinev1alpha1.MachineDeploymentList
		sets        machinev1alpha1.MachineSetList
		machines    machinev1alpha1.MachineList
	)
	for _, list := range []client.ObjectList{&deployments, &sets, &machines} {
		if err := l.Client.List(t.Context(), list, client.InNamespace(l.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	return worker.Collect(deployments.Items, sets.Items, machines.Items)
}

// identities of the instances: a new instance has another ID.
func (l *landscape) identities(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, i := range l.instances(t) {
		out[i.Name] = i.ID
	}
	return out
}

// TestMachinesSurviveAMigration: the machine controllers of another seed take over the machines, and neither create nor
// delete one.
func TestMachinesSurviveAMigration(t *testing.T) {
	l := startLandscape(t)
	stop := l.machineControllersOfSeed(t)
	l.startKubelets(t)
	infra, osc := l.infrastructure(), l.osc()
	for _, obj := range []extensionsv1alpha1.Object{infra, osc} {
		l.request(t, obj, extensionsv1alpha1.OperationReconcile)
		l.succeeded(t, obj)
	}
	w := l.worker(infra)
	l.request(t, w, extensionsv1alpha1.OperationReconcile)
	l.succeeded(t, w)
	before := l.identities(t)
	if len(before) != 2 {
		t.Fatalf("instances are %v, want two", before)
	}

	// As in the flow, no machine controller runs when the machine objects are deleted.
	stop()
	l.request(t, w, extensionsv1alpha1.OperationMigrate)
	l.succeeded(t, w)
	state := l.machineState(t)
	l.forgetMachines(t)
	l.remove(t, w)
	if diff := cmp.Diff(before, l.identities(t)); diff != "" {
		t.Fatalf("instances after the migration mismatch (-want +got):\n%s", diff)
	}

	w = l.worker(infra)
	l.request(t, w, extensionsv1alpha1.OperationWaitForState)
	raw, err := worker.EncodeState(state)
	if err != nil {
		t.Fatal(err)
	}
	withoutState := w.DeepCopy()
	w.Status.State = raw
	if err := l.Client.Status().Patch(t.Context(), w, client.MergeFrom(withoutState)); err != nil {
		t.Fatal(err)
	}
	l.request(t, w, extensionsv1alpha1.OperationRestore)
	eventually(t, func() string { // The actuator starts the controllers when the objects exist.
		list := &machinev1alpha1.MachineDeploymentList{}
		if err := l.Client.List(t.Context(), list, client.InNamespace(l.namespace)); err != nil || len(list.Items) < 2 {
			return fmt.Sprintf("%d machine deployments, %v", len(list.Items), err)
		}
		return ""
	})
	l.machineControllersOfSeed(t)
	l.succeeded(t, w)
	if w.Status.State != nil {
		t.Error("the state of the Worker is still that of the other seed")
	}

	if diff := cmp.Diff(before, l.identities(t)); diff != "" {
		t.Errorf("instances after the restore mismatch (-want +got):\n%s", diff)
	}
	machines, sets := &machinev1alpha1.MachineList{}, &machinev1alpha1.MachineSetList{}
	for _, list := range []client.ObjectList{machines, sets} {
		if err := l.Client.List(t.Context(), list, client.InNamespace(l.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if len(machines.Items) != 2 || len(sets.Items) != 2 {
		t.Errorf("there are %d machines in %d sets, want 2 in 2", len(machines.Items), len(sets.Items))
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if metav1.GetControllerOf(m) == nil || m.Status.CurrentStatus.Phase != machinev1alpha1.MachineRunning {
			t.Errorf("machine %s is %s with owners %v, want it adopted and running", m.Name, m.Status.CurrentStatus.Phase,
				m.OwnerReferences)
		}
	}

	l.gone(t, w) // The machines still belong to the Shoot.
	if left := l.identities(t); len(left) != 0 {
		t.Errorf("instances after deletion are %v, want none", left)
	}
	l.gone(t, osc)
	l.gone(t, infra)
}

// remove deletes a migrated object. Its extension keeps the external resources.
func (l *landscape) remove(t *testing.T, obj extensionsv1alpha1.Object) {
	t.Helper()
	l.gone(t, obj)
}

// TestMigrationLeavesTheOutsideAlone: objects that are migrated and deleted on one seed and restored on another find
// their external resources.
func TestMigrationLeavesTheOutsideAlone(t *testing.T) {
	l := startLandscape(t)
	outside := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		networks, err := l.cloud.Client.ListNetworks(t.Context(), cloud.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range networks {
			out["network "+n.Name] = n.ID
		}
		records, err := l.cloud.Client.ListDNSRecords(t.Context(), cloud.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			out["record "+r.Name] = fmt.Sprint(r.Values)
		}
		return out
	}
	kinds := []func() extensionsv1alpha1.Object{
		func() extensionsv1alpha1.Object { return l.infrastructure() },
		func() extensionsv1alpha1.Object { return l.dnsRecord() },
		func() extensionsv1alpha1.Object { return l.controlPlane() },
		func() extensionsv1alpha1.Object { return l.network() },
		func() extensionsv1alpha1.Object { return l.osc() },
	}
	var objects []extensionsv1alpha1.Object
	for _, kind := range kinds {
		o := kind()
		l.request(t, o, extensionsv1alpha1.OperationReconcile)
		l.succeeded(t, o)
		objects = append(objects, o)
	}
	made := outside()
	if len(made) != 2 {
		t.Fatalf("external resources are %v, want a network and a record", made)
	}
	for _, o := range objects {
		state := o.GetDefaultStatus().State
		l.request(t, o, extensionsv1alpha1.OperationMigrate)
		l.succeeded(t, o)
		if diff := cmp.Diff(state, o.GetDefaultStatus().State); diff != "" {
			t.Errorf("state of %T after its migration mismatch (-want +got):\n%s", o, diff)
		}
		if f := o.GetFinalizers(); len(f) > 0 {
			t.Errorf("finalizers of %T after its migration are %v, want none", o, f)
		}
		l.remove(t, o)
	}
	if diff := cmp.Diff(made, outside()); diff != "" {
		t.Fatalf("external resources after the migration mismatch (-want +got):\n%s", diff)
	}
	for i, kind := range kinds {
		o := kind()
		l.request(t, o, extensionsv1alpha1.OperationWaitForState)
		l.request(t, o, extensionsv1alpha1.OperationRestore)
		l.succeeded(t, o)
		if diff := cmp.Diff(objects[i].GetDefaultStatus().ProviderStatus, o.GetDefaultStatus().ProviderStatus); diff != "" {
			t.Errorf("provider status of %T after its restore mismatch (-want +got):\n%s", o, diff)
		}
		objects[i] = o
	}
	if diff := cmp.Diff(made, outside()); diff != "" {
		t.Errorf("external resources after the restore mismatch (-want +got):\n%s", diff)
	}
	for i := len(objects) - 1; i >= 0; i-- {
		l.gone(t, objects[i])
	}
	if left := outside(); len(left) != 0 {
		t.Errorf("external resources after the deletion are %v, want none", left)
	}
}
