package steps

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/kubescheduler"
	"hortus.dev/hortus/internal/flow"
)

// KubeScheduler places pods on the Shoot's nodes.
var KubeScheduler = &flow.Step[*Scope]{
	Name:   "kube-scheduler",
	After:  []*flow.Step[*Scope]{KubeAPIServerReady},
	SkipIf: workerless,
	Ensure: ensureKubeScheduler,
	Limit:  5 * time.Minute,
}

func ensureKubeScheduler(ctx context.Context, s *Scope) (flow.Outcome, error) {
	access, err := s.Access(kubescheduler.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	config, deployment := kubescheduler.Render(kubescheduler.Values{
		Namespace: s.Namespace, Image: s.Images.KubeScheduler(s.Shoot.Spec.Kubernetes.Version), Replicas: s.Replicas(),
		Access: access,
		Size:   s.size(), Config: s.Shoot.Spec.Kubernetes.KubeScheduler,
	})
	return s.applyWorkload(ctx, []client.Object{config, deployment})
}
