// Package finalizerremoval rejects the removal of finalizers that still protect something.
package finalizerremoval

import (
	"context"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// Validate checks the removal of the finalizer.
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
			return hortusadmission.Forbid(a, field.ErrorList{tooEarly(object)})
		}
	case *corev1beta1.SecretBinding, *securityv1alpha1.CredentialsBinding:
		if err := p.Await(a); err != nil {
			return err
		}
		user, err := p.userOf(ctx, a.GetObject())
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if user != "" {
			return hortusadmission.Forbid(a, field.ErrorList{inUse(user)})
		}
	}
	return nil
}

var finalizersPath = field.NewPath("metadata", "finalizers")

// tooEarly returns an error with the conditions for removing the finalizer of a Shoot.
func tooEarly(shoot *corev1beta1.Shoot) *field.Error {
	what := "wait until then"
	if shoot.DeletionTimestamp == nil {
		what = "delete the Shoot; the finalizer is removed at the end"
	}
	last := shoot.Status.LastOperation
	return field.Forbidden(finalizersPath,
		fmt.Sprintf("%q can be removed only when the Shoot is deleted completely (status.lastOperation is %s %s, %d %%; must be %s %s, 100 %%); %s",
			corev1beta1.FinalizerName, last.Type, last.State, last.Progress, corev1beta1.LastOperationTypeDelete,
			corev1beta1.LastOperationStateSucceeded, what))
}

// inUse returns an error that names a Shoot that uses the binding.
func inUse(shoot string) *field.Error {
	return field.Forbidden(finalizersPath,
		fmt.Sprintf("%q cannot be removed while Shoot %q uses the binding; delete the Shoot or change its binding first",
			corev1beta1.FinalizerName, shoot))
}

// cleanedUp reports whether the cluster has been deleted completely or was never created.
func cleanedUp(shoot *corev1beta1.Shoot) bool {
	last := shoot.Status.LastOperation
	if shoot.Status.TechnicalID == "" || last == nil {
		return true
	}
	return last.Type == corev1beta1.LastOperationTypeDelete && last.State == corev1beta1.LastOperationStateSucceeded &&
		last.Progress == 100
}

// userOf returns the name of a Shoot that uses a binding, "" if there is none.
func (p *plugin) userOf(ctx context.Context, binding any) (string, error) {
	object := binding.(metav1.Object)
	_, secretBinding := binding.(*corev1beta1.SecretBinding)
	shoots, err := p.ShootsOfBinding(ctx, object.GetNamespace(),
		hortusadmission.BindingKey(secretBinding, object.GetName()))
	if err != nil {
		return "", err
	}
	if len(shoots) > 0 {
		return shoots[0].Name, nil
	}
	// The cache may not contain a new Shoot yet, and the objects behind the finalizer cannot be restored.
	live := &corev1beta1.ShootList{}
	if err := p.Live.List(ctx, live, client.InNamespace(object.GetNamespace())); err != nil {
		return "", fmt.Errorf("list Shoots of namespace %q: %w", object.GetNamespace(), err)
	}
	return userAmong(live.Items, secretBinding, object.GetName()), nil
}

// userAmong returns the name of the first Shoot that uses a binding.
func userAmong(shoots []corev1beta1.Shoot, secretBinding bool, binding string) string {
	for i := range shoots {
		name := shoots[i].Spec.CredentialsBindingName
		if secretBinding {
			name = shoots[i].Spec.SecretBindingName
		}
		if name != nil && *name == binding {
			return shoots[i].Name
		}
	}
	return ""
}
