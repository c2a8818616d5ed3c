package backup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestStatusSaysWhatChangedAndWhen(t *testing.T) {
	const create, reconcile = corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationTypeReconcile
	var op *corev1beta1.LastOperation
	var failure *corev1beta1.LastError
	status := Status{LastOperation: &op, LastError: &failure}
	start := time.Unix(1000, 0)
	at := func(minute int) metav1.Time { return metav1.Time{Time: start.Add(time.Duration(minute) * time.Minute)} }
	for minute, step := range []struct {
		operation corev1beta1.LastOperationType
		report    Report
		want      corev1beta1.LastOperation
		failed    *metav1.Time
	}{
		{create, Processing("x"), corev1beta1.LastOperation{Type: create, State: "Processing", Progress: 10,
			Description: "x", LastUpdateTime: at(0)}, nil},
		{create, Processing("x"), corev1beta1.LastOperation{Type: create, State: "Processing", Progress: 10,
			Description: "x", LastUpdateTime: at(0)}, nil},
		{create, Failed("no"), corev1beta1.LastOperation{Type: create, State: "Error", Progress: 50, Description: "no",
			LastUpdateTime: at(2)}, new(at(2))},
		// A retry is not visible until it has ended.
		{create, Processing("y"), corev1beta1.LastOperation{Type: create, State: "Error", Progress: 50, Description: "no",
			LastUpdateTime: at(2)}, new(at(2))},
		{create, Failed("no"), corev1beta1.LastOperation{Type: create, State: "Error", Progress: 50, Description: "no",
			LastUpdateTime: at(2)}, new(at(2))},
		{create, Succeeded("z"), corev1beta1.LastOperation{Type: create, State: "Succeeded", Progress: 100, Description: "z",
			LastUpdateTime: at(5)}, nil},
		// Nothing had to be done.
		{reconcile, Succeeded("z"), corev1beta1.LastOperation{Type: create, State: "Succeeded", Progress: 100,
			Description: "z", LastUpdateTime: at(5)}, nil},
		{reconcile, Processing("x"), corev1beta1.LastOperation{Type: reconcile, State: "Processing", Progress: 10,
			Description: "x", LastUpdateTime: at(7)}, nil},
		{reconcile, Succeeded("z"), corev1beta1.LastOperation{Type: reconcile, State: "Succeeded", Progress: 100,
			Description: "z", LastUpdateTime: at(8)}, nil},
		{"Delete", Pending("p"), corev1beta1.LastOperation{Type: "Delete", State: "Pending", Description: "p",
			LastUpdateTime: at(9)}, nil},
	} {
		status.Set(step.operation, step.report, at(minute).Time)
		if diff := cmp.Diff(step.want, *op); diff != "" {
			t.Errorf("minute %d: operation mismatch (-want +got):\n%s", minute, diff)
		}
		var failed *metav1.Time
		if failure != nil {
			failed = failure.LastUpdateTime
		}
		if !failed.Equal(step.failed) {
			t.Errorf("minute %d: error since %v, want %v", minute, failed, step.failed)
		}
	}
}

func TestChecksumIsOverTheContent(t *testing.T) {
	a := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	if Checksum(a) != Checksum(map[string][]byte{"b": []byte("2"), "a": []byte("1")}) {
		t.Error("the order of keys matters")
	}
	if Checksum(a) == Checksum(map[string][]byte{"a": []byte("12"), "b": nil}) {
		t.Error("different data have the same checksum")
	}
}
