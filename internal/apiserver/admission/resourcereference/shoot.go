package resourcereference

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// shoot checks the references of a Shoot that are new or changed.
func (p *plugin) shoot(
	ctx context.Context, a admission.Attributes, shoot, old *corev1beta1.Shoot,
) (field.ErrorList, error) {
	if a.GetOperation() == admission.Create || old == nil {
		old = &corev1beta1.Shoot{}
	}
	spec, before, path := &shoot.Spec, &old.Spec, field.NewPath("spec")
	type reference struct {
		name, old *string
		namespace string
		object    client.Object
		path      string
	}
	var errs field.ErrorList
	for _, ref := range []reference{
		{spec.SeedName, before.SeedName, "", &corev1beta1.Seed{}, "seedName"},
		{spec.SecretBindingName, before.SecretBindingName, shoot.Namespace, &corev1beta1.SecretBinding{},
			"secretBindingName"},
		{spec.CredentialsBindingName, before.CredentialsBindingName, shoot.Namespace, &securityv1alpha1.CredentialsBinding{},
			"credentialsBindingName"},
		{spec.ExposureClassName, before.ExposureClassName, "", &corev1beta1.ExposureClass{}, "exposureClassName"},
	} {
		if equality.Semantic.DeepEqual(ref.name, ref.old) {
			continue
		}
		missing, err := p.optional(ctx, ref.namespace, ref.name, ref.object, path.Child(ref.path))
		if err != nil {
			return nil, err
		}
		errs = append(errs, missing...)
	}
	named, err := p.checkAll(ctx, a, namedByShoot(shoot, old))
	return append(errs, named...), err
}
