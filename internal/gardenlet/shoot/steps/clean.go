package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/gardenlet/shoot/cleanup"
)

// The cleanup of a Shoot before its machines are deleted: first objects that could interfere, then definitions of
// kinds, then workload and objects that represent external resources.
var (
	CleanWebhooks = &flow.Step[*Scope]{
		Name:   "clean-webhooks",
		After:  []*flow.Step[*Scope]{Connection, ResourceManager},
		Ensure: use2(clean(cleanup.Webhooks)),
		Limit:  cleanLimit, Recheck: recheck,
	}
	CleanExtendedAPIs = &flow.Step[*Scope]{
		Name:   "clean-extended-apis",
		After:  []*flow.Step[*Scope]{CleanWebhooks, KubeControllerManager},
		Ensure: use2(clean(cleanup.ExtendedAPIs)),
		Limit:  cleanLimit, Recheck: recheck,
	}
	CleanKubernetesResources = &flow.Step[*Scope]{
		Name:   "clean-kubernetes-resources",
		After:  []*flow.Step[*Scope]{CleanExtendedAPIs, KubeControllerManager, ControlPlane},
		Ensure: use2(clean(cleanup.KubernetesResources, cleanup.VolumeSnapshots)),
		Limit:  cleanLimit, Recheck: recheck,
	}
	// CleanVolumeAttachments comes after the machines: what is attached to their nodes is not used any more.
	CleanVolumeAttachments = &flow.Step[*Scope]{
		Name:   "clean-volume-attachments",
		Ensure: use1(attachmentsGone),
		Limit:  cleanLimit, Recheck: recheck,
	}
)

// cleanLimit is how long a step may wait before users get an error about remaining objects; the step continues
// nevertheless.
const cleanLimit = 10 * time.Minute

// shownObjects bounds the objects named in a message.
const shownObjects = 10

func clean(names ...string) func(context.Context, *Values, *ShootCluster) (flow.Outcome, error) {
	return func(ctx context.Context, s *Values, cluster *ShootCluster) (flow.Outcome, error) {
		shoot, err := cluster.client()
		if err != nil {
			return flow.Outcome{}, err
		}
		var left []string
		for _, name := range names {
			step, ok, err := cleanup.Plan(name, s.Shoot.Annotations)
			if err != nil {
				return flow.Outcome{}, flow.WithCodes(err, string(corev1beta1.ErrorConfigurationProblem))
			}
			if !ok {
				continue
			}
			some, err := cleanup.Run(ctx, shoot, step, cluster.clock.Now())
			if err != nil {
				return flow.Outcome{}, err
			}
			left = append(left, some...)
		}
		return cleaned(left), nil
	}
}

// attachmentsGone deletes the VolumeAttachments of nodes that no longer exist, and waits until their drivers have
// released them, for five minutes at most.
func attachmentsGone(ctx context.Context, cluster *ShootCluster) (flow.Outcome, error) {
	shoot, err := cluster.client()
	if err != nil {
		return flow.Outcome{}, err
	}
	left, err := cleanup.RunLostAttachments(ctx, shoot, cluster.clock.Now())
	if err != nil {
		return flow.Outcome{}, err
	}
	return cleaned(left), nil
}

// cleaned is the outcome of a cleanup that has left these objects.
func cleaned(left []string) flow.Outcome {
	if len(left) == 0 {
		return flow.Done()
	}
	return flow.WaitingWithCodes(waitObject, leftMessage(left), string(corev1beta1.ErrorCleanupClusterResources))
}

func leftMessage(left []string) string {
	return "Objects of the Shoot are being deleted: " + leftList(left)
}

// leftList names the first few objects, and how many more there are.
func leftList(left []string) string {
	more := ""
	if n := len(left) - shownObjects; n > 0 {
		left, more = left[:shownObjects], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(left, ", ") + more
}
