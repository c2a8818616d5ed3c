package steps

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubeproxy"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/secretsmanager"
)

// KubeProxy makes Services work on the Shoot's nodes, unless the user has disabled it.
var KubeProxy = &flow.Step[*Scope]{
	Name:   "kube-proxy",
	After:  []*flow.Step[*Scope]{ShootNamespaces, OperatingSystemConfig},
	SkipIf: when(workerless, asleep),
	Ensure: use3(ensureKubeProxy),
}

func ensureKubeProxy(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	if p := s.Shoot.Spec.Kubernetes.KubeProxy; p != nil && !ptr.Deref(p.Enabled, true) {
		return seed.removeShootResource(ctx, kubeproxy.ResourceName)
	}
	objects, err := renderKubeProxy(s, secrets)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), seed.applyShootResource(ctx, kubeproxy.ResourceName, objects)
}

func renderKubeProxy(s *Values, secrets Secrets) ([]client.Object, error) {
	ca, err := secrets.Bundle(nameCA)
	if err != nil {
		return nil, err
	}
	v := kubeproxy.Values{
		APIServerURL: "https://" + s.InternalHost(), CABundle: ca.Data[secretsmanager.DataBundle], PodCIDR: s.PodCIDR(),
		Mode: corev1beta1.ProxyModeIPTables,
	}
	if p := s.Shoot.Spec.Kubernetes.KubeProxy; p != nil {
		v.Mode, v.FeatureGates = ptr.Deref(p.Mode, v.Mode), p.FeatureGates
	}
	for _, w := range s.Shoot.Spec.Provider.Workers {
		v.Pools = append(v.Pools, kubeproxy.Pool{Name: w.Name, Image: s.Images.KubeProxy(poolVersion(s.Shoot, w))})
	}
	return kubeproxy.Render(v)
}

// poolVersion is the Kubernetes version of a pool: its own, or the one of the control plane.
func poolVersion(shoot *corev1beta1.Shoot, w corev1beta1.Worker) string {
	if w.Kubernetes != nil && w.Kubernetes.Version != nil {
		return *w.Kubernetes.Version
	}
	return shoot.Spec.Kubernetes.Version
}
