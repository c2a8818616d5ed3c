package containerruntime

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
	"hortus.dev/hortus/extension"
)

func TestOfPool(t *testing.T) {
	shoot := &corev1beta1.Shoot{}
	for name, types := range map[string][]string{"other": {"kata"}, "sandboxed": {"kata", Type}, "plain": nil} {
		w := corev1beta1.Worker{Name: name, CRI: &corev1beta1.CRI{Name: corev1beta1.CRINameContainerD}}
		for _, runtime := range types {
			w.CRI.ContainerRuntimes = append(w.CRI.ContainerRuntimes, corev1beta1.ContainerRuntime{Type: runtime})
		}
		shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, w)
	}
	shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, corev1beta1.Worker{Name: "without CRI"})
	for pool, want := range map[string]bool{
		"sandboxed": true, "other": false, "plain": false, "without CRI": false, "unknown": false,
	} {
		if got := OfPool(shoot, pool); got != want {
			t.Errorf("OfPool(%s) = %t", pool, got)
		}
	}
}

// TestClassSelectsPools: the RuntimeClass has the name of the type, as users of Gardener know it, and pods that use it
// are scheduled to nodes with the runtime's label only.
func TestClassSelectsPools(t *testing.T) {
	class := RuntimeClass()
	if class.Name != "gvisor" || class.Handler != "runsc" {
		t.Errorf("RuntimeClass %q has the handler %q", class.Name, class.Handler)
	}
	if diff := cmp.Diff(map[string]string{"containerruntime.worker.gardener.cloud/gvisor": "true"},
		class.Scheduling.NodeSelector); diff != "" {
		t.Errorf("node selector mismatch (-want +got):\n%s", diff)
	}
}

// TestContainerdFindsTheRuntime: the unit restarts for the configuration, and the programs are in containerd's PATH.
func TestContainerdFindsTheRuntime(t *testing.T) {
	files, units := OnMachines()
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	want := []string{
		"/var/bin/containerruntimes/containerd-shim-runsc-v1", "/var/bin/containerruntimes/runsc",
		"/etc/containerd/conf.d/gvisor.toml",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("files mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]extensionsv1alpha1.Unit{
		{Name: "containerd.service", FilePaths: []string{"/etc/containerd/conf.d/gvisor.toml"}},
	}, units); diff != "" {
		t.Errorf("units mismatch (-want +got):\n%s", diff)
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	o := &extensionsv1alpha1.ContainerRuntime{}
	if errs := (&Actuator{}).Validate(t.Context(), o, nil); len(errs) > 0 {
		t.Errorf("without configuration: %v", errs)
	}
	o.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"debug":true}`)}
	if errs := (&Actuator{}).Validate(t.Context(), o, nil); len(errs) != 1 {
		t.Errorf("with a configuration: %v", errs)
	}
}

func TestPoolsShareTheClass(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, extensionsv1alpha1.AddToScheme, resourcesv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	object := func(name, kind string) *extensionsv1alpha1.ContainerRuntime {
		return &extensionsv1alpha1.ContainerRuntime{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "cp", Finalizers: []string{"f"}},
			Spec:       extensionsv1alpha1.ContainerRuntimeSpec{DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: kind}},
		}
	}
	red, blue := object("gvisor-red", Type), object("gvisor-blue", Type)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(red, blue, object("kata-red", "kata")).Build()
	a := &Actuator{Client: c}
	exists := func() bool {
		t.Helper()
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "cp", Name: managedResource},
			&resourcesv1alpha1.ManagedResource{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	for _, o := range []*extensionsv1alpha1.ContainerRuntime{red, blue} {
		if result, err := a.Reconcile(t.Context(), o, nil); err != nil || result != extension.Done() {
			t.Fatalf("Reconcile = %v, %v", result, err)
		}
	}
	if !exists() {
		t.Fatal("there is no ManagedResource")
	}
	remove := func(o *extensionsv1alpha1.ContainerRuntime) extension.Result {
		t.Helper()
		if err := c.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		result, err := a.Delete(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := remove(red); result != extension.Done() || !exists() {
		t.Errorf("without one of two pools: %v, ManagedResource exists: %t", result, exists())
	}
	// The resource-manager, which removes the RuntimeClass, holds the ManagedResource.
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "cp", Name: managedResource}, mr); err != nil {
		t.Fatal(err)
	}
	mr.Finalizers = []string{"resource-manager"}
	if err := c.Update(t.Context(), mr); err != nil {
		t.Fatal(err)
	}
	if result := remove(blue); result == extension.Done() {
		t.Error("the last pool does not wait for the end of the RuntimeClass")
	}
	green := object("gvisor-green", Type)
	if result, err := a.Reconcile(t.Context(), green, nil); err != nil || result == extension.Done() {
		t.Errorf("Reconcile while the RuntimeClass is being deleted = %v, %v", result, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(mr), mr); err != nil {
		t.Fatal(err)
	}
	mr.Finalizers = nil
	if err := c.Update(t.Context(), mr); err != nil {
		t.Fatal(err)
	}
	if result, err := a.Delete(t.Context(), blue, nil); err != nil || result != extension.Done() {
		t.Errorf("Delete after the end of the RuntimeClass = %v, %v", result, err)
	}
	if result, err := a.Reconcile(t.Context(), green, nil); err != nil || result != extension.Done() || !exists() {
		t.Errorf("Reconcile afterwards = %v, %v; ManagedResource exists: %t", result, err, exists())
	}
}
