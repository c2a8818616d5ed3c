package steps

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/flow"
)

// ClusterIdentity records a name for the cluster that is unique among all gardens.
var ClusterIdentity = &flow.Step[*Scope]{
	Name:   "cluster-identity",
	After:  []*flow.Step[*Scope]{Namespace},
	Ensure: use2(ensureClusterIdentity),
}

func ensureClusterIdentity(ctx context.Context, s *Values, garden *Garden) (flow.Outcome, error) {
	if s.Shoot.Status.ClusterIdentity != nil {
		return flow.Done(), nil
	}
	return flow.Done(), garden.patchShootStatus(ctx, s,
		func(status *corev1beta1.ShootStatus) { status.ClusterIdentity = ptr.To(clusterIdentity(s)) })
}

func clusterIdentity(s *Values) string {
	if s.Shoot.Status.ClusterIdentity != nil {
		return *s.Shoot.Status.ClusterIdentity
	}
	return fmt.Sprintf("%s-%s-%s", s.Namespace, s.Shoot.Status.UID, s.GardenIdentity)
}
