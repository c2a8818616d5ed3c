package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// annotationRollout on the template of a MachineDeployment makes machines differ that were made before and after a
// request to roll their pool; its value is the time of the request.
const annotationRollout = "rollout-workers"

// pendingRollouts are the values of the annotation for the pools of which a user has requested new machines. They sort
// by time.
func pendingRollouts(shoot *corev1beta1.Shoot) map[string]string {
	if shoot.Status.ManualWorkerPoolRollout == nil {
		return nil
	}
	out := map[string]string{}
	for _, p := range shoot.Status.ManualWorkerPoolRollout.PendingWorkersRollouts {
		if p.LastInitiationTime != nil {
			out[p.Name] = p.LastInitiationTime.UTC().Format(time.RFC3339)
		}
	}
	return out
}

// requestRollouts annotates the MachineDeployments of the pools that are to be rolled. Those that have the annotation
// are being rolled already, and those with a later one have been: a garden that was restored from a backup may not know
// of it.
func requestRollouts(ctx context.Context, s *Values, seed *SeedNamespace) error {
	pending := pendingRollouts(s.Shoot)
	if len(pending) == 0 {
		return nil
	}
	deployments := &machinev1alpha1.MachineDeploymentList{}
	if err := seed.List(ctx, deployments, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("list machine deployments: %w", err)
	}
	for i := range deployments.Items {
		md := &deployments.Items[i]
		value := pending[md.Labels[corev1beta1.LabelWorkerPool]]
		if value <= md.Spec.Template.Annotations[annotationRollout] || !rolls(md) {
			continue
		}
		before := md.DeepCopy()
		if md.Spec.Template.Annotations == nil {
			md.Spec.Template.Annotations = map[string]string{}
		}
		md.Spec.Template.Annotations[annotationRollout] = value
		if err := seed.Patch(ctx, md, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
			return fmt.Errorf("roll machine deployment %q: %w", md.Name, err)
		}
		log.FromContext(ctx).Info("Rolling MachineDeployment, as requested by a user", "MachineDeployment", klog.KObj(md),
			"initiated", value)
	}
	return nil
}

// waitingForRollouts says which of the requested pools still have old machines, "" if none has. The extension of the
// Worker waits for new machines, too; here is made sure that it has seen the request.
func waitingForRollouts(ctx context.Context, s *Values, seed *SeedNamespace) (string, error) {
	pending := pendingRollouts(s.Shoot)
	if len(pending) == 0 {
		return "", nil
	}
	deployments := &machinev1alpha1.MachineDeploymentList{}
	if err := seed.List(ctx, deployments, client.InNamespace(s.Namespace)); err != nil {
		return "", fmt.Errorf("list machine deployments: %w", err)
	}
	return unrolled(deployments.Items, pending), nil
}

// unrolled names the MachineDeployments of requested pools that still have old machines.
func unrolled(deployments []machinev1alpha1.MachineDeployment, pending map[string]string) string {
	var waiting []string
	for i := range deployments {
		md := &deployments[i]
		value := pending[md.Labels[corev1beta1.LabelWorkerPool]]
		if value == "" || !rolls(md) {
			continue
		}
		st, want := md.Status, md.Spec.Replicas
		if md.Spec.Template.Annotations[annotationRollout] < value || st.ObservedGeneration < md.Generation ||
			st.UpdatedReplicas != want || st.Replicas != want {
			waiting = append(waiting, fmt.Sprintf("%s (%d of %d machines are new)", md.Name, st.UpdatedReplicas, want))
		}
	}
	if len(waiting) == 0 {
		return ""
	}
	slices.Sort(waiting)
	return "Requested worker pools are being rolled: " + strings.Join(waiting, ", ")
}

// rolls reports whether a MachineDeployment replaces its machines.
func rolls(md *machinev1alpha1.MachineDeployment) bool {
	return md.Spec.Strategy.Type == machinev1alpha1.RollingUpdateMachineDeploymentStrategyType
}
