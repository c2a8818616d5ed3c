// Package shootdnsrewriting adds the landscape's common suffixes to new Shoots: names with these suffixes are resolved
// outside of the cluster.
package shootdnsrewriting

import (
	"context"
	"io"
	"slices"

	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootDNSRewriting"

const configurationVersion = "shootdnsrewriting.admission.gardener.cloud/v1alpha1"

// Configuration applies to all projects.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// commonSuffixes are added to the suffixes of every new Shoot with workers.
	CommonSuffixes []string `json:"commonSuffixes,omitempty"`
}

// New returns the plugin.
func New(reader io.Reader) (admission.Interface, error) {
	p := &plugin{Handler: admission.NewHandler(admission.Create)}
	if err := hortusadmission.ReadConfiguration(reader, Name, configurationVersion, &p.config); err != nil {
		return nil, err
	}
	return p, nil
}

type plugin struct {
	*admission.Handler
	config Configuration
}

// Admit adds the suffixes to a new Shoot.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if shoot, ok := a.GetObject().(*corev1beta1.Shoot); ok && a.GetSubresource() == "" {
		add(shoot, p.config.CommonSuffixes)
	}
	return nil
}

func add(shoot *corev1beta1.Shoot, suffixes []string) {
	if !shoot.HasWorkers() || len(suffixes) == 0 {
		return
	}
	if shoot.Spec.SystemComponents == nil {
		shoot.Spec.SystemComponents = &corev1beta1.SystemComponents{}
	}
	components := shoot.Spec.SystemComponents
	if components.CoreDNS == nil {
		components.CoreDNS = &corev1beta1.CoreDNS{}
	}
	if components.CoreDNS.Rewriting == nil {
		components.CoreDNS.Rewriting = &corev1beta1.CoreDNSRewriting{}
	}
	rewriting := components.CoreDNS.Rewriting
	for _, suffix := range suffixes {
		if !slices.Contains(rewriting.CommonSuffixes, suffix) {
			rewriting.CommonSuffixes = append(rewriting.CommonSuffixes, suffix)
		}
	}
}
