package steps

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/gardenlet/extensionobject"
)

// runtimesScope is a Shoot whose pools request container runtimes of the given types.
func runtimesScope(t *testing.T, pools map[string][]string) (*Scope, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := extensionsv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range pools {
		names = append(names, name)
	}
	slices.Sort(names)
	s := testScope(names...)
	for i := range s.Shoot.Spec.Provider.Workers {
		w := &s.Shoot.Spec.Provider.Workers[i]
		for _, kind := range pools[w.Name] {
			w.CRI.ContainerRuntimes = append(w.CRI.ContainerRuntimes, corev1beta1.ContainerRuntime{Type: kind})
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	s.Seed = builder.WithStatusSubresource(&extensionsv1alpha1.ContainerRuntime{}).Build()
	s.Clock, s.Started = testclock.NewFakePassiveClock(time.Unix(1e9, 0)), time.Unix(1e9, 0).Add(-time.Second)
	return s, s.Seed
}

// runtimes returns the names of the ContainerRuntimes, those that are being deleted with a minus.
func runtimes(t *testing.T, s *Scope) []string {
	t.Helper()
	objects, err := extensionobject.List(t.Context(), s.Seed, s.Namespace,
		only(extensionsv1alpha1.ContainerRuntimeKind)...)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, o := range objects {
		if o.GetDeletionTimestamp() == nil {
			names = append(names, o.GetName())
		} else {
			names = append(names, "-"+o.GetName())
		}
	}
	return names
}

// succeed does what extensions do: each requested operation succeeds.
func succeed(t *testing.T, s *Scope) {
	t.Helper()
	list := &extensionsv1alpha1.ContainerRuntimeList{}
	if err := s.Seed.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		delete(o.Annotations, extensionsv1alpha1.AnnotationOperation)
		o.Finalizers = []string{"extensions.gardener.cloud/containerruntime"}
		if err := s.Seed.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Status.ObservedGeneration = o.Generation
		o.Status.LastOperation = &corev1beta1.LastOperation{
			Type: corev1beta1.LastOperationTypeCreate, State: corev1beta1.LastOperationStateSucceeded,
			LastUpdateTime: metav1.NewTime(s.Clock.Now()),
		}
		if err := s.Seed.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOneContainerRuntimePerPoolAndType(t *testing.T) {
	s, c := runtimesScope(t, map[string][]string{"a": {"gvisor", "kata"}, "b": {"gvisor"}, "c": nil})
	config := &runtime.RawExtension{Raw: []byte(`{"debug":true}`)}
	s.Shoot.Spec.Provider.Workers[1].CRI.ContainerRuntimes[0].ProviderConfig = config
	if outcome, err := ContainerRuntimes.Ensure(t.Context(), s); err != nil || outcome.IsDone() {
		t.Errorf("outcome %v, error %v, want a wait for the extensions", outcome, err)
	}
	if diff := cmp.Diff([]string{"gvisor-a", "gvisor-b", "kata-a"}, runtimes(t, s)); diff != "" {
		t.Errorf("objects mismatch (-want +got):\n%s", diff)
	}
	got := &extensionsv1alpha1.ContainerRuntime{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "gvisor-b"}, got); err != nil {
		t.Fatal(err)
	}
	want := extensionsv1alpha1.ContainerRuntimeSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: "gvisor", ProviderConfig: config},
		BinaryPath:  "/var/bin/containerruntimes",
		WorkerPool: extensionsv1alpha1.ContainerRuntimeWorkerPool{
			Name:     "b",
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"worker.gardener.cloud/pool": "b"}},
		},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec mismatch (-want +got):\n%s", diff)
	}
	if got := got.Annotations[extensionsv1alpha1.AnnotationOperation]; got != extensionsv1alpha1.OperationReconcile {
		t.Errorf("operation: %q", got)
	}
	succeed(t, s)
	if outcome, err := ContainerRuntimes.Ensure(t.Context(), s); err != nil || !outcome.IsDone() {
		t.Errorf("outcome %v, error %v once all have succeeded", outcome, err)
	}
}

func TestContainerRuntimesAreDeletedWithTheirPool(t *testing.T) {
	s, _ := runtimesScope(t, map[string][]string{"a": {"gvisor", "kata"}, "b": {"gvisor"}})
	if _, err := ContainerRuntimes.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	succeed(t, s)
	if outcome, err := StaleContainerRuntimes.Ensure(t.Context(), s); err != nil || !outcome.IsDone() {
		t.Errorf("outcome %v, error %v while all are wanted", outcome, err)
	}
	workers := s.Shoot.Spec.Provider.Workers
	workers[0].CRI.ContainerRuntimes = workers[0].CRI.ContainerRuntimes[1:] // Only kata.
	s.Shoot.Spec.Provider.Workers = workers[:1]
	if outcome, err := StaleContainerRuntimes.Ensure(t.Context(), s); err != nil || outcome.IsDone() {
		t.Errorf("outcome %v, error %v, want a wait for the deletion", outcome, err)
	}
	if diff := cmp.Diff([]string{"-gvisor-a", "-gvisor-b", "kata-a"}, runtimes(t, s)); diff != "" {
		t.Errorf("objects mismatch (-want +got):\n%s", diff)
	}
	if _, err := ContainerRuntimes.Remove(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-gvisor-a", "-gvisor-b", "-kata-a"}, runtimes(t, s)); diff != "" {
		t.Errorf("objects after the deletion of the Shoot mismatch (-want +got):\n%s", diff)
	}
}

func TestContainerRuntimesAreRestored(t *testing.T) {
	s, c := runtimesScope(t, map[string][]string{"a": {"gvisor"}})
	s.Operation = corev1beta1.LastOperationTypeRestore
	if outcome, err := ContainerRuntimes.Ensure(t.Context(), s); err != nil || outcome.IsDone() {
		t.Errorf("outcome %v, error %v, want a wait for the extension", outcome, err)
	}
	if got := annotated(t, c, s.Namespace, extensionsv1alpha1.AnnotationOperation,
		extensionsv1alpha1.OperationRestore); got != extensionsv1alpha1.ContainerRuntimeKind {
		t.Errorf("restored: %q", got)
	}
}
