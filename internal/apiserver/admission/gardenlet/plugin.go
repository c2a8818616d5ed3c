// Package gardenlet rejects Gardenlets and ManagedSeeds with the same name, and Gardenlets that would change what has
// to stay in a Seed. It warns of Gardenlets without a Seed.
package gardenlet

import (
	"context"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "Gardenlet"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks a Gardenlet or a new ManagedSeed. A gardenlet is changed by one of them only: by itself, as the
// Gardenlet says, or by the gardenlet of another Seed, as the ManagedSeed says.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	isNew := a.GetOperation() == admission.Create
	switch o := a.GetObject().(type) {
	case *seedmanagementv1alpha1.Gardenlet:
		if isNew {
			if err := p.reject(ctx, a, "ManagedSeed", o.Name, &seedmanagementv1alpha1.ManagedSeed{}); err != nil {
				return err
			}
		}
		return p.compare(ctx, a, o)
	case *seedmanagementv1alpha1.ManagedSeed:
		if isNew {
			return p.reject(ctx, a, "Gardenlet", o.Name, &seedmanagementv1alpha1.Gardenlet{})
		}
	}
	return nil
}

// compare rejects a Gardenlet that would change what has to stay in its Seed.
func (p *plugin) compare(ctx context.Context, a admission.Attributes, o *seedmanagementv1alpha1.Gardenlet) error {
	template := o.SeedTemplate()
	if template == nil || o.DeletionTimestamp != nil {
		return nil
	}
	seed := &corev1beta1.Seed{}
	found, err := p.exists(ctx, client.ObjectKey{Name: o.Name}, seed)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case found:
		before := &corev1beta1.SeedTemplate{ObjectMeta: seed.ObjectMeta, Spec: seed.Spec}
		return hortusadmission.Refuse(a, corev1beta1.ValidateSeedTemplateUpdate(template, before, seedPath))
	case a.GetOperation() == admission.Create:
		warning.AddWarning(ctx, "", fmt.Sprintf("there is no Seed %q, so no gardenlet reads this: install the first "+
			"gardenlet by Helm, it changes itself from then on", o.Name))
	}
	return nil
}

var seedPath = field.NewPath("spec", "config", "seedConfig")

// reject returns an error if there is an object of the other kind with the name.
func (p *plugin) reject(ctx context.Context, a admission.Attributes, kind, name string, other client.Object) error {
	found, err := p.exists(ctx, client.ObjectKey{Namespace: corev1beta1.GardenNamespace, Name: name}, other)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if found {
		return admission.NewForbidden(a,
			fmt.Errorf("the gardenlet of Seed %q is that of %s %q; delete that one first", name, kind, name))
	}
	return nil
}

func (p *plugin) exists(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := p.Live.Get(ctx, key, object)
	return err == nil, client.IgnoreNotFound(err)
}
