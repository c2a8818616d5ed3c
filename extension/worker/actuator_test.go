package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension"
)

type plainProvider struct{}

func (plainProvider) Machine(
	context.Context, *extensionsv1alpha1.Worker, *extension.Cluster, *extensionsv1alpha1.WorkerPool, string,
) (Machine, error) {
	return Machine{Provider: "test", Spec: runtime.RawExtension{Raw: []byte("{}")}}, nil
}

const ns = "shoot--dev--a"

func testWorker() *extensionsv1alpha1.Worker {
	w := &extensionsv1alpha1.Worker{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}
	w.Spec.SecretRef = corev1.SecretReference{Namespace: ns, Name: "cloudprovider"}
	w.Spec.Pools = []extensionsv1alpha1.WorkerPool{{
		Name: "p", Minimum: 1, Maximum: 3, KubernetesVersion: ptr.To("1.36.3"), NodeAgentSecretName: ptr.To("k"),
		MachineImage: extensionsv1alpha1.MachineImage{Name: "os", Version: "1"},
		UserDataSecretRef: corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "osc"}, Key: "cloud_config",
		},
	}}
	return w
}

func testCluster(hibernated bool) *extension.Cluster {
	shoot := &corev1beta1.Shoot{}
	shoot.Spec.Hibernation = &corev1beta1.Hibernation{Enabled: &hibernated}
	return &extension.Cluster{Shoot: shoot, CloudProfile: &corev1beta1.CloudProfile{}}
}

// newActuator returns an actuator on a fake cluster with a machine controller that is scaled down; created collects the
// kinds that are created, in order.
func newActuator(created *[]string, objects ...client.Object) *Actuator {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, extensionsv1alpha1.AddToScheme, machinev1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	objects = append(objects,
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "osc"}, Data: map[string][]byte{"cloud_config": []byte("data")},
		},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: mcmName}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(0))},
		},
	)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := c.Create(ctx, obj, opts...); err != nil {
				return err
			}
			if gvk, err := c.GroupVersionKindFor(obj); err == nil && gvk.Group == "machine.sapcloud.io" {
				*created = append(*created, gvk.Kind)
			}
			return nil
		},
	}).Build()
	return &Actuator{Client: c, Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), Provider: plainProvider{}}
}

func (a *Actuator) controllerReplicas(t *testing.T) int32 {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: mcmName}, d); err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(d.Spec.Replicas, -1)
}

func TestRestorePutsMachinesFirst(t *testing.T) {
	var created []string
	a, w := newActuator(&created), testWorker()
	w.Spec.Pools[0].Minimum = 2
	set := machinev1alpha1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: ns + "-p-z1-1", Labels: map[string]string{"name": ns + "-p-z1"},
	}}
	machine := machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Name: ns + "-p-z1-1-x", Labels: map[string]string{"name": ns + "-p-z1", machinev1alpha1.NodeLabelKey: "node-1"},
	}}
	machine.Spec.ProviderID = "local:///r/i-1"
	want, err := a.wanted(t.Context(), w, testCluster(false))
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas, set.Spec.Template.Spec.Class.Name = 2, want[0].ClassName
	set.Spec.Template.Annotations = map[string]string{"rolled-out-by-hand": "1"}
	raw, err := EncodeState(State{
		ns + "-p-z1": {
			Replicas: 2, MachineSets: []machinev1alpha1.MachineSet{set}, Machines: []machinev1alpha1.Machine{machine},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Status.State = raw
	result, err := a.Restore(t.Context(), w, testCluster(false))
	if err != nil || result.IsDone() {
		t.Fatalf("Restore() = %v, %v, want to wait for the machines", result, err)
	}
	if diff := cmp.Diff([]string{"MachineClass", "MachineSet", "Machine", "MachineDeployment"}, created); diff != "" {
		t.Errorf("order mismatch (-want +got):\n%s", diff)
	}
	md := &machinev1alpha1.MachineDeployment{}
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: ns + "-p-z1"}, md); err != nil ||
		md.Spec.Replicas != 2 {
		t.Errorf("replicas are %d (%v), want those of the state", md.Spec.Replicas, err)
	}
	if diff := cmp.Diff(set.Spec.Template.Annotations, md.Spec.Template.Annotations); diff != "" {
		t.Errorf("annotations of the template mismatch, so that the machines are replaced (-want +got):\n%s", diff)
	}
	got := &machinev1alpha1.Machine{}
	if err := a.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: machine.Name}, got); err != nil {
		t.Fatal(err)
	}
	if got.Spec.ProviderID != machine.Spec.ProviderID || got.Labels[machinev1alpha1.NodeLabelKey] != "node-1" {
		t.Errorf("machine has provider ID %q and labels %v", got.Spec.ProviderID, got.Labels)
	}
	if n := a.controllerReplicas(t); n != 1 {
		t.Errorf("the machine controller has %d replicas, want 1", n)
	}
	before := len(created)
	if _, err := a.Restore(t.Context(), w, testCluster(false)); err != nil { // Again, as after a crash.
		t.Fatal(err)
	}
	if len(created) != before {
		t.Errorf("a second restore created %v", created[before:])
	}

	// In a Shoot that is being hibernated only the controller can delete the machines.
	a, w = newActuator(&created), testWorker()
	w.Status.State = raw
	if result, err := a.Restore(t.Context(), w, testCluster(true)); err != nil || result.IsDone() {
		t.Errorf("Restore() = %v, %v, want to wait until the machines are gone", result, err)
	}
	if n := a.controllerReplicas(t); n != 1 {
		t.Errorf("the machine controller has %d replicas, want 1", n)
	}
}

func TestHibernationStopsTheControllerLast(t *testing.T) {
	var created []string
	machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "m", Labels: map[string]string{"name": ns + "-p-z1"},
	}}
	a, w := newActuator(&created, machine), testWorker()
	if err := a.scaleController(t.Context(), ns, 1); err != nil {
		t.Fatal(err)
	}
	result, err := a.Reconcile(t.Context(), w, testCluster(true))
	if err != nil || result.IsDone() {
		t.Fatalf("Reconcile() = %v, %v, want to wait for the removal of the machine", result, err)
	}
	if err := a.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
		t.Fatal(err)
	}
	if machine.Labels[labelForceDeletion] != valueForceDeletion {
		t.Errorf("labels of the machine are %v, want a deletion without drain", machine.Labels)
	}
	if n := a.controllerReplicas(t); n != 1 {
		t.Errorf("the machine controller has %d replicas while a machine is left", n)
	}
	if err := a.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	if result, err = a.Reconcile(t.Context(), w, testCluster(true)); err != nil || !result.IsDone() {
		t.Fatalf("Reconcile() = %v, %v, want done", result, err)
	}
	if n := a.controllerReplicas(t); n != 0 {
		t.Errorf("the machine controller has %d replicas, want none", n)
	}
}

// slowProvider has pools whose machines wait for something.
type slowProvider struct {
	plainProvider
	waits map[string]string // By pool.
}

func (p *slowProvider) Prepare(
	_ context.Context, _ *extensionsv1alpha1.Worker, _ *extension.Cluster, pool *extensionsv1alpha1.WorkerPool,
) (string, error) {
	return p.waits[pool.Name], nil
}

// TestMachinesAreCreatedOncePrepared: a pool whose machines wait for something has no machines, or those that it had,
// and the Worker says what for. Other pools do not wait.
func TestMachinesAreCreatedOncePrepared(t *testing.T) {
	var created []string
	a, w := newActuator(&created), testWorker()
	provider := &slowProvider{waits: map[string]string{"p": "x 1.35.4 is being built"}}
	a.Provider = provider
	w.Spec.Pools[0].Zones = []string{"a", "b"}
	other := *w.Spec.Pools[0].DeepCopy()
	other.Name, other.Zones = "q", nil
	w.Spec.Pools = append(w.Spec.Pools, other)
	classes := func() map[string]string {
		t.Helper()
		list := &machinev1alpha1.MachineDeploymentList{}
		if err := a.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, md := range list.Items {
			found[md.Name] = md.Spec.Template.Spec.Class.Name
		}
		return found
	}
	class := func(names map[string]string, pool string) string { return names[ns+"-"+pool+"-z1"] }

	got, err := a.Reconcile(t.Context(), w, testCluster(false))
	want := extension.Waiting(fmt.Sprintf(
		`machines of pool "p" wait: x 1.35.4 is being built; MachineDeployment %q has no MachineSet of class %q yet`,
		ns+"-q-z1", a.classOf(t, w, "q")), recheckPreparation)
	if err != nil || got != want {
		t.Errorf("Reconcile() = %+v, %v, want %+v", got, err, want)
	}
	if found := classes(); class(found, "p") != "" || class(found, "q") == "" {
		t.Errorf("MachineDeployments with their classes: %v, want only that of pool q", found)
	}
	provider.waits = nil
	second, err := a.Reconcile(t.Context(), w, testCluster(false))
	if found := classes(); err != nil || second.IsDone() || class(found, "p") == "" {
		t.Errorf("Reconcile() = %+v, %v, with MachineDeployments %v, want one of pool p", second, err, found)
	}
	// A newer version that is being built does not replace machines.
	provider.waits = map[string]string{"p": "x 1.35.4 is being built"}
	old := class(classes(), "p")
	w.Spec.Pools[0].NodeAgentSecretName = ptr.To("k2")
	if _, err := a.Reconcile(t.Context(), w, testCluster(false)); err != nil || class(classes(), "p") != old {
		t.Errorf("class of pool p became %q, %v, want %q until the version is there", class(classes(), "p"), err, old)
	}
	// Nothing is prepared for machines that are to be deleted.
	if _, err := a.Reconcile(t.Context(), w, testCluster(true)); err != nil || class(classes(), "p") == old {
		t.Errorf("class of pool p of a hibernated Shoot is still %q, %v", old, err)
	}
}

// classOf returns the name of the MachineClass of a pool.
func (a *Actuator) classOf(t *testing.T, w *extensionsv1alpha1.Worker, pool string) string {
	t.Helper()
	want, err := a.wanted(t.Context(), w, testCluster(false))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if want[i].PoolName == pool {
			return want[i].ClassName
		}
	}
	t.Fatalf("no pool %q", pool)
	return ""
}

func TestListForTheAutoscalerIsWrittenOncePerRequest(t *testing.T) {
	var created []string
	a, w := newActuator(&created), testWorker()
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	a.Clock = clk
	at := func() time.Time { return w.Status.MachineDeploymentsLastUpdateTime.Time }
	reconcile := func(request time.Time) {
		t.Helper()
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, extensionsv1alpha1.AnnotationTimestamp, request.Format(time.RFC3339Nano))
		if _, err := a.Reconcile(t.Context(), w, testCluster(false)); err != nil {
			t.Fatal(err)
		}
		clk.SetTime(clk.Now().Add(time.Minute))
	}
	request := clk.Now().Add(-time.Second)
	reconcile(request)
	first := at()
	reconcile(request) // Woken by a watch.
	if !at().Equal(first) {
		t.Errorf("the time changed to %v without a new request", at())
	}
	reconcile(clk.Now().Add(-time.Second))
	if !at().After(first) {
		t.Error("the time did not change with a new request")
	}
}

func TestMigrateAndForceDeleteTouchNothing(t *testing.T) {
	var created []string
	machine := &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "m", Labels: map[string]string{"name": ns + "-p-z1"},
	}}
	a, w := newActuator(&created, machine), testWorker()
	for name, act := range map[string]func(context.Context, *extensionsv1alpha1.Worker,
		*extension.Cluster) (extension.Result, error){
		"Migrate": a.Migrate, "ForceDelete": a.ForceDelete,
	} {
		if result, err := act(t.Context(), w, testCluster(false)); err != nil || !result.IsDone() {
			t.Errorf("%s() = %v, %v, want done", name, result, err)
		}
	}
	if err := a.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil ||
		!machine.DeletionTimestamp.IsZero() {
		t.Errorf("the machine was changed (%v)", err)
	}
}
