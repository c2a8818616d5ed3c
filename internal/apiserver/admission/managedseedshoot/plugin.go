// Package managedseedshoot rejects the deletion of ManagedSeeds while their Seeds run control planes.
package managedseedshoot

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ManagedSeedShoot"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks a deletion. For a deletion of a collection it is called once per object.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	managed, ok := a.GetOldObject().(*seedmanagementv1alpha1.ManagedSeed)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	user, err := p.UserOfSeed(ctx, managed.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if user != "" {
		return admission.NewForbidden(a,
			fmt.Errorf("the Seed still runs control planes, such as that of Shoot %s; delete or move them first", user))
	}
	return nil
}
