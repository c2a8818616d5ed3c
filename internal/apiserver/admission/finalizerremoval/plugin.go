// Package finalizerremoval keeps finalizers from being removed while they protect something.
package finalizerremoval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "FinalizerRemoval"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate decides about the removal of the finalizer.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := a.GetObject().(metav1.Object)
	if !ok {
		return nil
	}
	old, ok := a.GetOldObject().(metav1.Object)
	if !ok || !slices.Contains(old.GetFinalizers(), corev1beta1.FinalizerName) ||
		slices.Contains(object.GetFinalizers(), corev1beta1.FinalizerName) {
		return nil
	}
	switch object := a.GetObject().(type) {
	case *corev1beta1.Shoot:
		if !cleanedUp(object) {
			return admission.NewForbidden(a, fmt.Errorf("finalizer %q can be removed only when the Shoot is deleted completely", corev1beta1.FinalizerName))
		}
	case *corev1beta1.SecretBinding, *securityv1alpha1.CredentialsBinding:
		user, err := p.userOf(ctx, a.GetObject())
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if user != "" {
			return admission.NewForbidden(a, fmt.Errorf("finalizer %q cannot be removed: Shoot %q uses the binding", corev1beta1.FinalizerName, user))
		}
	}
	return nil
}

// cleanedUp says whether nothing of the cluster is left, or nothing was ever made.
func cleanedUp(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	if shoot.Status.TechnicalID == "" || last == nil {
		return true
	}
	return last.Type == corev1beta1.LastOperationTypeDelete && last.State == corev1beta1.LastOperationStateSucceeded && last.Progress == 100
}

// userOf returns the name of a Shoot that uses a binding.
func (p *plugin) userOf(ctx context.Context, binding any) (string, error) {
	if p.Objects == nil {
		return "", errors.New("the plugin has no objects to read")
	}
	object := binding.(metav1.Object)
	shoots := &corev1beta1.ShootList{}
	if err := p.Live.List(ctx, shoots, client.InNamespace(object.GetNamespace())); err != nil {
		return "", fmt.Errorf("list Shoots of namespace %q: %w", object.GetNamespace(), err)
	}
	for i := range shoots.Items {
		spec := &shoots.Items[i].Spec
		name := spec.CredentialsBindingName
		if _, ok := binding.(*corev1beta1.SecretBinding); ok {
			name = spec.SecretBindingName
		}
		if name != nil && *name == object.GetName() {
			return shoots.Items[i].Name, nil
		}
	}
	return "", nil
}
