package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

// Target is an extension under test.
type Target struct {
	Client client.Client // For the cluster, without a cache.
	// Namespace of the objects under test; the checks create its Cluster.
	Namespace string
	// New returns a valid object of the kind, without name, namespace and annotations.
	New func() extensionsv1alpha1.Object
	// Finalizer that the extension must put on its objects.
	Finalizer string
	// Step makes an extension in the test process act once on the object. Nil means that it runs by itself.
	Step func(ctx context.Context, key client.ObjectKey) error
	// Probe observes and controls the actuator. Nil skips the checks that need it.
	Probe Probe
	// Change makes a valid change to the spec of an object. Nil skips the checks that need it.
	Change func(extensionsv1alpha1.Object)
}

// Probe observes and controls the actuator under test.
type Probe interface {
	// Calls returns the names of the actuator's methods called for the object so far, in order.
	Calls(key client.ObjectKey) []string
	// Fail makes every call for the object fail with err until it is called with nil.
	Fail(key client.ObjectKey, err error)
	// StateSeen returns status.state as passed to the last call for the object.
	StateSeen(key client.ObjectKey) []byte
}

const (
	patience = 5 * time.Minute // For an extension that runs by itself.
	pause    = 100 * time.Millisecond
	// quietSteps and quietTime are how long nothing must happen for "nothing happens".
	quietSteps = 5
	quietTime  = time.Second
)

// check is one rule of the contract.
type check struct {
	name       string
	needsProbe bool
	run        func(*testing.T, *fixture)
}

// Run runs all checks as subtests.
func Run(t *testing.T, target Target) {
	for i, c := range []check{
		{name: "a request is taken off before the work and answered with Create and Succeeded", run: checkCreate},
		{name: "a change of the spec without a request does nothing", run: checkNoRequest},
		{name: "an error is shown with its codes and retried", needsProbe: true, run: checkError},
		{name: "nothing is done for a failed Shoot", run: checkFailedShoot},
		{name: "a migrated object has no finalizer and ignores requests", run: checkMigrate},
		{name: "a migrated object goes without a deletion outside", run: checkMigratedDelete},
		{name: "a migrated object keeps its state", run: checkMigratedState},
		{name: "a migrated object can be restored where it is", run: checkMigratedRestore},
		{name: "nothing is done before the state is there, and restore sees it", run: checkRestore},
		{name: "a failed deletion is shown and keeps the finalizer", needsProbe: true, run: checkDeleteError},
		{name: "a forced deletion takes the other path", needsProbe: true, run: checkForceDelete},
		{name: "an object of another type is left alone", run: checkOtherType},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needsProbe && target.Probe == nil {
				t.Log("needs a probe, which the caller does not lend")
				return
			}
			f := &fixture{Target: target, ctx: t.Context(), name: fmt.Sprintf("check-%d", i+1)}
			f.setUp(t)
			c.run(t, f)
		})
	}
}

// fixture is one object and what a check does with it.
type fixture struct {
	Target
	ctx   context.Context
	name  string
	shoot *corev1beta1.Shoot
}

func (f *fixture) setUp(t *testing.T) {
	t.Helper()
	f.shoot = &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-conformance", Name: "conformance"}}
	f.shoot.Status.LastOperation = &corev1beta1.LastOperation{
		Type: corev1beta1.LastOperationTypeReconcile, State: corev1beta1.LastOperationStateProcessing,
	}
	f.setCluster(t)
}

// setCluster writes the Cluster with the Shoot as it is now.
func (f *fixture) setCluster(t *testing.T) {
	t.Helper()
	raw, err := json.Marshal(f.shoot)
	if err != nil {
		t.Fatal(err)
	}
	cluster := &extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}}
	err = f.Client.Get(f.ctx, client.ObjectKeyFromObject(cluster), cluster)
	cluster.Spec.Shoot = runtime.RawExtension{Raw: raw}
	if len(cluster.Spec.CloudProfile.Raw) == 0 {
		cluster.Spec.CloudProfile = runtime.RawExtension{Raw: []byte("{}")}
	}
	if apierrors.IsNotFound(err) {
		err = f.Client.Create(f.ctx, cluster)
	} else if err == nil {
		err = f.Client.Update(f.ctx, cluster)
	}
	if err != nil {
		t.Fatalf("write cluster: %v", err)
	}
}

func (f *fixture) key() client.ObjectKey {
	return client.ObjectKey{Namespace: f.Namespace, Name: f.name}
}

// create makes the object with a request for the operation.
func (f *fixture) create(t *testing.T, operation string, tweak func(extensionsv1alpha1.Object)) {
	t.Helper()
	obj := f.New()
	obj.SetNamespace(f.Namespace)
	obj.SetName(f.name)
	obj.SetAnnotations(request(operation))
	if tweak != nil {
		tweak(obj)
	}
	if err := f.Client.Create(f.ctx, obj); err != nil {
		t.Fatalf("create object: %v", err)
	}
}

func request(operation string) map[string]string {
	return map[string]string{
		extensionsv1alpha1.AnnotationOperation: operation,
		extensionsv1alpha1.AnnotationTimestamp: time.Now().UTC().Format(time.RFC3339Nano),
	}
}

// get reads the object; nil means that it is gone.
func (f *fixture) get(t *testing.T) extensionsv1alpha1.Object {
	t.Helper()
	obj := f.New()
	err := f.Client.Get(f.ctx, f.key(), obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("read object: %v", err)
	}
	return obj
}

// change patches the object.
func (f *fixture) change(t *testing.T, mutate func(extensionsv1alpha1.Object)) {
	t.Helper()
	obj := f.get(t)
	before := obj.DeepCopyObject().(client.Object)
	mutate(obj)
	if err := f.Client.Patch(f.ctx, obj, client.MergeFrom(before)); err != nil {
		t.Fatalf("patch object: %v", err)
	}
}

// request requests an operation.
func (f *fixture) request(t *testing.T, operation string) {
	t.Helper()
	f.change(t, func(obj extensionsv1alpha1.Object) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for key, value := range request(operation) {
			annotations[key] = value
		}
		obj.SetAnnotations(annotations)
	})
}

func (f *fixture) delete(t *testing.T) {
	t.Helper()
	f.change(t, func(obj extensionsv1alpha1.Object) {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[extensionsv1alpha1.AnnotationConfirmDeletion] = "true"
		obj.SetAnnotations(annotations)
	})
	if err := f.Client.Delete(f.ctx, f.get(t)); err != nil {
		t.Fatalf("delete object: %v", err)
	}
}

// act lets the extension act once, or gives it time.
func (f *fixture) act() {
	if f.Step == nil {
		time.Sleep(pause)
		return
	}
	_ = f.Step(f.ctx, f.key()) // Errors of the actuator are looked for in the status.
}

// eventually acts until the condition gives no reason any more.
func (f *fixture) eventually(t *testing.T, condition func() string) {
	t.Helper()
	steps, deadline := 0, time.Now().Add(patience)
	for {
		reason := condition()
		if reason == "" {
			return
		}
		if steps++; (f.Step != nil && steps > 2*quietSteps) || time.Now().After(deadline) {
			t.Fatal(reason)
		}
		f.act()
	}
}

// stays acts for a while and fails as soon as the condition gives a reason.
func (f *fixture) stays(t *testing.T, condition func() string) {
	t.Helper()
	deadline := time.Now().Add(quietTime)
	for i := 0; (f.Step != nil && i < quietSteps) || (f.Step == nil && time.Now().Before(deadline)); i++ {
		f.act()
		if reason := condition(); reason != "" {
			t.Fatal(reason)
		}
	}
}

// succeeded waits until an operation of the type has succeeded and its request has been taken off.
func (f *fixture) succeeded(t *testing.T, want corev1beta1.LastOperationType) {
	t.Helper()
	f.eventually(t, func() string {
		obj := f.get(t)
		if obj == nil {
			return "the object is gone"
		}
		if op, requested := obj.GetAnnotations()[extensionsv1alpha1.AnnotationOperation]; requested {
			return fmt.Sprintf("the request %q is still there", op)
		}
		last := obj.GetDefaultStatus().LastOperation
		if last == nil || last.Type != want || last.State != corev1beta1.LastOperationStateSucceeded {
			return fmt.Sprintf("last operation is %+v, want %s to succeed", last, want)
		}
		return ""
	})
}

func (f *fixture) hasFinalizer(obj extensionsv1alpha1.Object) bool {
	for _, have := range obj.GetFinalizers() {
		if have == f.Finalizer {
			return true
		}
	}
	return false
}
