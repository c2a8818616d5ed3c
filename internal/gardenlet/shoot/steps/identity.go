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

func ensureClusterIdentity(_ context.Context, s *Values, status *Status) (flow.Outcome, error) {
	if s.Shoot.Status.ClusterIdentity == nil {
		status.change(func(to *corev1beta1.ShootStatus) { to.ClusterIdentity = ptr.To(clusterIdentity(s)) })
	}
	return flow.Done(), nil
}

func clusterIdentity(s *Values) string {
	if s.Shoot.Status.ClusterIdentity != nil {
		return *s.Shoot.Status.ClusterIdentity
	}
	return fmt.Sprintf("%s-%s-%s", s.Namespace, s.Shoot.Status.UID, s.GardenIdentity)
}
