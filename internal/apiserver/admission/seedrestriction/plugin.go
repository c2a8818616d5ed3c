// Package seedrestriction lets a gardenlet write only what belongs to its own Seed. What the role of gardenlets allows
// for all of them is thereby narrowed for each; whoever takes over one Seed gains nothing over the others.
package seedrestriction

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "SeedRestriction"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate decides about a write of a gardenlet.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	seed := seedOf(a.GetUserInfo())
	if seed == "" {
		return nil
	}
	object, old := a.GetObject(), a.GetOldObject()
	if a.GetOperation() == admission.Create {
		old = nil
	}
	allowed, err := p.belongs(ctx, a, seed, object, old)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if !allowed {
		return admission.NewForbidden(a, fmt.Errorf("the gardenlet of Seed %q may not write what belongs to others", seed))
	}
	return nil
}

// seedOf returns the Seed whose gardenlet the caller is, or nothing.
func seedOf(caller user.Info) string {
	seed, ok := strings.CutPrefix(caller.GetName(), corev1beta1.SeedUserPrefix)
	if !ok || !slices.Contains(caller.GetGroups(), corev1beta1.SeedsGroup) {
		return ""
	}
	return seed
}

// belongs says whether an object belongs to a Seed before and after the write. Objects that move with a control plane
// belong to two Seeds meanwhile.
func (p *plugin) belongs(ctx context.Context, a admission.Attributes, seed string, object, old runtime.Object) (bool, error) {
	present := old // For a deletion there is only the old one.
	if present == nil {
		present = object
	}
	switch present := present.(type) {
	case *corev1beta1.Seed:
		return present.Name == seed, nil
	case *corev1beta1.Shoot:
		if a.GetOperation() != admission.Update || a.GetSubresource() == "binding" || !onSeed(present, seed) {
			return false, nil
		}
		after, before := object.(*corev1beta1.Shoot).Status.SeedName, present.Status.SeedName
		return is(after, seed) || value(after) == value(before), nil
	case *corev1beta1.BackupBucket:
		return is(present.Spec.SeedName, seed), nil
	case *corev1beta1.BackupEntry:
		return is(present.Spec.SeedName, seed) || is(present.Status.SeedName, seed), nil
	case *corev1beta1.ControllerInstallation:
		return present.Spec.SeedRef != nil && present.Spec.SeedRef.Name == seed, nil
	case *operationsv1alpha1.Bastion:
		return a.GetOperation() != admission.Create && is(present.Spec.SeedName, seed), nil
	case *corev1beta1.ShootState:
		return p.shootOnSeed(ctx, present.Namespace, present.Name, seed)
	case *corev1beta1.InternalSecret:
		shoot, _, ok := strings.Cut(present.Name, ".")
		if !ok {
			return false, nil
		}
		return p.shootOnSeed(ctx, present.Namespace, shoot, seed)
	case *seedmanagementv1alpha1.ManagedSeed:
		if a.GetOperation() != admission.Update || present.Spec.Shoot == nil {
			return false, nil
		}
		return p.shootOnSeed(ctx, present.Namespace, present.Spec.Shoot.Name, seed)
	}
	return false, nil
}

func (p *plugin) shootOnSeed(ctx context.Context, namespace, name, seed string) (bool, error) {
	shoot := &corev1beta1.Shoot{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, shoot)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && onSeed(shoot, seed), err
}

// onSeed says whether a control plane runs on a Seed or is to run there.
func onSeed(shoot *corev1beta1.Shoot, seed string) bool {
	return is(shoot.Spec.SeedName, seed) || is(shoot.Status.SeedName, seed)
}

func is(name *string, seed string) bool { return name != nil && *name == seed }

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
