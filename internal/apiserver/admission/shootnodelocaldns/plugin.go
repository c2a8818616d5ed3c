// Package shootnodelocaldns enables NodeLocal DNSCache in new Shoots, in landscapes that enable this plugin.
package shootnodelocaldns

import (
	"context"
	"io"

	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Name of the plugin.
const Name = "ShootNodeLocalDNSEnabledByDefault"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{admission.NewHandler(admission.Create)}, nil
}

type plugin struct{ *admission.Handler }

// Admit enables the cache in a Shoot that does not set it.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if shoot, ok := a.GetObject().(*corev1beta1.Shoot); ok && a.GetSubresource() == "" {
		enable(shoot)
	}
	return nil
}

func enable(shoot *corev1beta1.Shoot) {
	if !shoot.HasWorkers() {
		return
	}
	if shoot.Spec.SystemComponents == nil {
		shoot.Spec.SystemComponents = &corev1beta1.SystemComponents{}
	}
	if shoot.Spec.SystemComponents.NodeLocalDNS == nil {
		shoot.Spec.SystemComponents.NodeLocalDNS = &corev1beta1.NodeLocalDNS{Enabled: true}
	}
}
