package steps

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/flow"
)

// KubeControllerManager runs the controllers of Kubernetes for the Shoot.
var KubeControllerManager = &flow.Step[*Scope]{
	Name:   "kube-controller-manager",
	After:  []*flow.Step[*Scope]{KubeAPIServerReady},
	Ensure: use3(ensureKubeControllerManager),
	Limit:  5 * time.Minute,
}

func ensureKubeControllerManager(ctx context.Context, s *Values, seed *Seed, secrets Secrets) (flow.Outcome, error) {
	access, err := secrets.access(kubecontrollermanager.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	clientCA, err := secrets.Get(nameCAClient)
	if err != nil {
		return flow.Outcome{}, err
	}
	key, err := secrets.Get(nameServiceAccountKey)
	if err != nil {
		return flow.Outcome{}, err
	}
	v := kubecontrollermanager.Values{
		Namespace:         s.Namespace,
		Image:             s.Images.KubeControllerManager(s.Shoot.Spec.Kubernetes.Version),
		Replicas:          s.Replicas(),
		Access:            access,
		Size:              s.size(),
		ClientCASecret:    clientCA.Name,
		ServiceAccountKey: key.Name,
		ServiceCIDR:       s.ServiceCIDR(),
		Workers:           !s.Workerless(),
		Config:            s.Shoot.Spec.Kubernetes.KubeControllerManager,
	}
	if v.Workers {
		kubeletCA, err := secrets.Get(nameCAKubelet)
		if err != nil {
			return flow.Outcome{}, err
		}
		v.KubeletCASecret, v.PodCIDR = kubeletCA.Name, s.PodCIDR()
	}
	config, deployment := kubecontrollermanager.Render(v)
	return applyWorkload(ctx, s, seed, []client.Object{config, deployment})
}
