// Package seedmutator labels Seeds with the names of the Seeds they are relevant to: their own, and for a managed Seed
// the Seed that runs its control plane. It also warns of deprecated fields, before the strategy fills in both
// spellings.
package seedmutator

import (
	"context"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "SeedMutator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit sets the labels of a Seed, and returns warnings.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "seeds"); !concerns {
		return err
	}
	seed, ok := a.GetObject().(*corev1beta1.Seed)
	if !ok {
		return nil
	}
	old, _ := a.GetOldObject().(*corev1beta1.Seed)
	for _, text := range corev1beta1.WarningsSeed(seed, old) {
		warning.AddWarning(ctx, "", text)
	}
	if seed.Name == "" {
		return nil
	}
	parent, err := p.parentOf(ctx, seed.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	seed.Labels = hortusadmission.SeedLabels(seed.Labels, &seed.Name, parent)
	return nil
}

// parentOf returns the Seed that runs the control plane of a managed Seed. A managed Seed has the same name as its
// ManagedSeed.
func (p *plugin) parentOf(ctx context.Context, seed string) (*string, error) {
	shoot, err := p.ShootOfManagedSeed(ctx, seed)
	if shoot == nil || err != nil {
		return nil, err
	}
	return shoot.Spec.SeedName, nil
}
