package conformance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/extension/errorcode"
)

func checkCreate(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	obj := f.get(t)
	if !f.hasFinalizer(obj) {
		t.Errorf("finalizers are %q, want %q among them", obj.GetFinalizers(), f.Finalizer)
	}
	status := obj.GetDefaultStatus()
	if status.ObservedGeneration != obj.GetGeneration() {
		t.Errorf("observedGeneration is %d, want %d", status.ObservedGeneration, obj.GetGeneration())
	}
	if status.LastError != nil || status.LastOperation.Progress != 100 {
		t.Errorf("lastError is %+v and progress %d, want none and 100", status.LastError, status.LastOperation.Progress)
	}
	f.request(t, extensionsv1alpha1.OperationReconcile)
	f.succeeded(t, corev1beta1.LastOperationTypeReconcile)
}

func checkNoRequest(t *testing.T, f *fixture) {
	if f.Change == nil {
		t.Log("the caller gives no change")
		return
	}
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	f.change(t, f.Change)
	before := f.get(t).GetDefaultStatus().DeepCopy()
	f.stays(t, func() string {
		if got := f.get(t).GetDefaultStatus(); got.ObservedGeneration != before.ObservedGeneration ||
			got.LastOperation.Type != before.LastOperation.Type {
			return fmt.Sprintf("the change was acted upon: %+v", got.LastOperation)
		}
		return ""
	})
}

func checkError(t *testing.T, f *fixture) {
	code := corev1beta1.ErrorInfraQuotaExceeded
	f.Probe.Fail(f.key(), errorcode.With(errors.New("no room"), code))
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.eventually(t, func() string {
		status := f.get(t).GetDefaultStatus()
		if status.LastError == nil || !slices.Equal(status.LastError.Codes, []corev1beta1.ErrorCode{code}) {
			return fmt.Sprintf("lastError is %+v, want code %s", status.LastError, code)
		}
		if op := status.LastOperation; op.State != corev1beta1.LastOperationStateError || op.Progress != 50 {
			return fmt.Sprintf("lastOperation is %+v, want Error at 50", op)
		}
		return ""
	})
	f.Probe.Fail(f.key(), nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	if e := f.get(t).GetDefaultStatus().LastError; e != nil {
		t.Errorf("lastError after a success is %+v", e)
	}
}

func checkFailedShoot(t *testing.T, f *fixture) {
	f.shoot.Status.LastOperation.State = corev1beta1.LastOperationStateFailed
	f.setCluster(t)
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.stays(t, func() string {
		if op := f.get(t).GetDefaultStatus().LastOperation; op != nil {
			return fmt.Sprintf("lastOperation is %+v, want none", op)
		}
		return ""
	})
}

func checkMigrate(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	f.request(t, extensionsv1alpha1.OperationMigrate)
	f.succeeded(t, corev1beta1.LastOperationTypeMigrate)
	if f.hasFinalizer(f.get(t)) {
		t.Error("the finalizer is still there")
	}
	f.request(t, extensionsv1alpha1.OperationReconcile)
	f.stays(t, func() string {
		if op := f.get(t).GetDefaultStatus().LastOperation; op.Type != corev1beta1.LastOperationTypeMigrate {
			return fmt.Sprintf("a migrated object was acted upon: %+v", op)
		}
		return ""
	})
}

func checkMigratedDelete(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	f.request(t, extensionsv1alpha1.OperationMigrate)
	f.succeeded(t, corev1beta1.LastOperationTypeMigrate)
	f.delete(t)
	f.gone(t)
	if f.Probe != nil && (slices.Contains(f.Probe.Calls(f.key()), "Delete") ||
		slices.Contains(f.Probe.Calls(f.key()), "ForceDelete")) {
		t.Errorf("calls were %q, want no deletion", f.Probe.Calls(f.key()))
	}
}

// checkMigratedState: the gardenlet reads the state after the migration, whatever it was saved as before.
func checkMigratedState(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	before := f.get(t).GetDefaultStatus().DeepCopy()
	f.request(t, extensionsv1alpha1.OperationMigrate)
	f.succeeded(t, corev1beta1.LastOperationTypeMigrate)
	after := f.get(t).GetDefaultStatus()
	if before.State != nil && after.State == nil {
		t.Errorf("status.state was %s and is gone", before.State.Raw)
	}
	if len(after.Resources) < len(before.Resources) {
		t.Errorf("status.resources are %v, were %v", after.Resources, before.Resources)
	}
}

// checkMigratedRestore: a migration that is given up ends where it began.
func checkMigratedRestore(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	f.request(t, extensionsv1alpha1.OperationMigrate)
	f.succeeded(t, corev1beta1.LastOperationTypeMigrate)
	f.request(t, extensionsv1alpha1.OperationRestore)
	f.succeeded(t, corev1beta1.LastOperationTypeRestore)
	obj := f.get(t)
	if !f.hasFinalizer(obj) {
		t.Errorf("finalizers after the restore are %q, want %q among them", obj.GetFinalizers(), f.Finalizer)
	}
	if status := obj.GetDefaultStatus(); status.ObservedGeneration != obj.GetGeneration() || status.LastError != nil {
		t.Errorf("observedGeneration is %d of %d and lastError %+v, want all observed and none", status.ObservedGeneration,
			obj.GetGeneration(), status.LastError)
	}
	f.request(t, extensionsv1alpha1.OperationReconcile)
	f.succeeded(t, corev1beta1.LastOperationTypeReconcile)
}

func (f *fixture) gone(t *testing.T) {
	t.Helper()
	f.eventually(t, func() string {
		if obj := f.get(t); obj != nil {
			return fmt.Sprintf("the object is still there, finalizers %q", obj.GetFinalizers())
		}
		return ""
	})
}

func checkRestore(t *testing.T, f *fixture) {
	const state = `{"known":"from before"}`
	f.create(t, extensionsv1alpha1.OperationWaitForState, nil)
	f.stays(t, func() string {
		obj := f.get(t)
		if op := obj.GetDefaultStatus().LastOperation; op != nil || len(obj.GetFinalizers()) > 0 {
			return fmt.Sprintf("the object was touched: %+v, finalizers %q", op, obj.GetFinalizers())
		}
		return ""
	})
	obj := f.get(t)
	before := obj.DeepCopyObject().(client.Object)
	obj.GetDefaultStatus().State = &runtime.RawExtension{Raw: []byte(state)}
	if err := f.Client.Status().Patch(f.ctx, obj, client.MergeFrom(before)); err != nil {
		t.Fatalf("write state: %v", err)
	}
	f.request(t, extensionsv1alpha1.OperationRestore)
	f.succeeded(t, corev1beta1.LastOperationTypeRestore)
	if f.Probe != nil && string(f.Probe.StateSeen(f.key())) != state {
		t.Errorf("restore saw state %q, want %q", f.Probe.StateSeen(f.key()), state)
	}
}

func checkDeleteError(t *testing.T, f *fixture) {
	code := corev1beta1.ErrorInfraDependencies
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	f.Probe.Fail(f.key(), errorcode.With(errors.New("in use"), code))
	f.delete(t)
	f.eventually(t, func() string {
		obj := f.get(t)
		if obj == nil {
			t.Fatal("the object is gone though its deletion failed")
		}
		status := obj.GetDefaultStatus()
		if status.LastError == nil || !slices.Equal(status.LastError.Codes, []corev1beta1.ErrorCode{code}) ||
			status.LastOperation.Type != corev1beta1.LastOperationTypeDelete {
			return fmt.Sprintf("lastError is %+v of %+v, want code %s of Delete", status.LastError, status.LastOperation, code)
		}
		if !f.hasFinalizer(obj) {
			return "the finalizer is gone"
		}
		return ""
	})
	f.Probe.Fail(f.key(), nil)
	f.gone(t)
}

func checkForceDelete(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, nil)
	f.succeeded(t, corev1beta1.LastOperationTypeCreate)
	now := metav1.Now()
	f.shoot.DeletionTimestamp = &now
	f.shoot.Annotations = map[string]string{extensionsv1alpha1.AnnotationConfirmForceDeletion: "true"}
	f.setCluster(t)
	f.delete(t)
	f.gone(t)
	calls := f.Probe.Calls(f.key())
	if !slices.Contains(calls, "ForceDelete") || slices.Contains(calls, "Delete") {
		t.Errorf("calls were %q, want ForceDelete and no Delete", calls)
	}
}

func checkOtherType(t *testing.T, f *fixture) {
	f.create(t, extensionsv1alpha1.OperationReconcile, func(obj extensionsv1alpha1.Object) {
		obj.GetDefaultSpec().Type = "nobody-serves-this"
	})
	f.stays(t, func() string {
		obj := f.get(t)
		if op := obj.GetDefaultStatus().LastOperation; op != nil || len(obj.GetFinalizers()) > 0 {
			return fmt.Sprintf("the object was touched: %+v, finalizers %q", op, obj.GetFinalizers())
		}
		return ""
	})
}
