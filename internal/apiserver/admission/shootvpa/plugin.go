// Package shootvpa enables the vertical pod autoscaler in new Shoots, in landscapes that enable this plugin.
package shootvpa

import (
	"context"
	"io"

	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Name of the plugin.
const Name = "ShootVPAEnabledByDefault"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{admission.NewHandler(admission.Create)}, nil
}

type plugin struct{ *admission.Handler }

// Admit enables the autoscaler in a Shoot that does not set it.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if shoot, ok := a.GetObject().(*corev1beta1.Shoot); ok && a.GetSubresource() == "" {
		enable(shoot)
	}
	return nil
}

func enable(shoot *corev1beta1.Shoot) {
	if shoot.HasWorkers() && shoot.Spec.Kubernetes.VerticalPodAutoscaler == nil {
		shoot.Spec.Kubernetes.VerticalPodAutoscaler = &corev1beta1.VerticalPodAutoscaler{Enabled: true}
	}
}
