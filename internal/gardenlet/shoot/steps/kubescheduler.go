package steps

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/kubescheduler"
	"hortus.dev/hortus/internal/flow"
)

// KubeScheduler schedules pods on the Shoot's nodes.
var KubeScheduler = &flow.Step[*Scope]{
	Name:   "kube-scheduler",
	After:  []*flow.Step[*Scope]{KubeAPIServerReady},
	SkipIf: when(workerless),
	Ensure: use3(ensureKubeScheduler),
	Limit:  5 * time.Minute,
}

func ensureKubeScheduler(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	access, err := secrets.access(kubescheduler.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	config, deployment := kubescheduler.Render(kubescheduler.Values{
		Namespace: s.Namespace, Image: s.Images.KubeScheduler(s.Shoot.Spec.Kubernetes.Version), Replicas: s.Replicas(),
		Access: access,
		Size:   s.size(), Config: s.Shoot.Spec.Kubernetes.KubeScheduler,
	})
	return applyWorkload(ctx, s, seed, []client.Object{config, deployment})
}
