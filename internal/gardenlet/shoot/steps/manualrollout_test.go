package steps

import (
	"testing"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

type machineDeployment = machinev1alpha1.MachineDeployment

func TestUnrolled(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)))
	shoot := &corev1beta1.Shoot{}
	shoot.Status.ManualWorkerPoolRollout = &corev1beta1.ManualWorkerPoolRollout{
		PendingWorkersRollouts: []corev1beta1.PendingWorkersRollout{{Name: "a", LastInitiationTime: &at}},
	}
	pending := pendingRollouts(shoot)
	if diff := cmp.Diff(map[string]string{"a": "2026-01-02T02:04:05Z"}, pending); diff != "" {
		t.Fatalf("pendingRollouts() (-want +got):\n%s", diff)
	}
	deployment := func(change func(*machineDeployment)) machinev1alpha1.MachineDeployment {
		md := machinev1alpha1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Name: "s-a-z1", Generation: 2, Labels: map[string]string{corev1beta1.LabelWorkerPool: "a"},
		}}
		md.Spec.Replicas = 2
		md.Spec.Strategy.Type = machinev1alpha1.RollingUpdateMachineDeploymentStrategyType
		md.Spec.Template.Annotations = map[string]string{annotationRollout: "2026-01-02T02:04:05Z"}
		md.Status = machinev1alpha1.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2}
		if change != nil {
			change(&md)
		}
		return md
	}
	const first = "Requested worker pools are being rolled: s-a-z1 "
	for name, tc := range map[string]struct {
		change func(*machineDeployment)
		want   string
	}{
		"all machines are new": {nil, ""},
		"not requested yet": {func(md *machineDeployment) {
			md.Spec.Template.Annotations = nil
		}, first + "(2 of 2 machines are new)"},
		"requested before only": {func(md *machineDeployment) {
			md.Spec.Template.Annotations[annotationRollout] = "2026-01-01T00:00:00Z"
		}, first + "(2 of 2 machines are new)"},
		"not seen yet": {func(md *machineDeployment) {
			md.Status.ObservedGeneration = 1
		}, first + "(2 of 2 machines are new)"},
		"an old machine": {func(md *machineDeployment) {
			md.Status.UpdatedReplicas = 1
		}, first + "(1 of 2 machines are new)"},
		"an old machine, too": {func(md *machineDeployment) {
			md.Status.Replicas = 3
		}, first + "(2 of 2 machines are new)"},
		"another pool": {func(md *machineDeployment) {
			md.Labels[corev1beta1.LabelWorkerPool], md.Status.UpdatedReplicas = "b", 0
		}, ""},
		"machines updated in place": {func(md *machineDeployment) {
			md.Spec.Strategy.Type, md.Status.UpdatedReplicas = machinev1alpha1.InPlaceUpdateMachineDeploymentStrategyType, 0
		}, ""},
		"a pool without any machines": {func(md *machineDeployment) {
			md.Spec.Replicas, md.Status.Replicas, md.Status.UpdatedReplicas = 0, 0, 0
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unrolled([]machinev1alpha1.MachineDeployment{deployment(tc.change)}, pending); got != tc.want {
				t.Errorf("unrolled() = %q, want %q", got, tc.want)
			}
		})
	}
}
