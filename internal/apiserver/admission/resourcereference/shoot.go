package resourcereference

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// shoot checks the references of a Shoot that are new or changed.
func (p *plugin) shoot(ctx context.Context, a admission.Attributes, shoot, old *corev1beta1.Shoot) (field.ErrorList, error) {
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
		{spec.SecretBindingName, before.SecretBindingName, shoot.Namespace, &corev1beta1.SecretBinding{}, "secretBindingName"},
		{spec.CredentialsBindingName, before.CredentialsBindingName, shoot.Namespace, &securityv1alpha1.CredentialsBinding{}, "credentialsBindingName"},
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
	for i, resource := range spec.Resources {
		if contains(before.Resources, resource) {
			continue
		}
		ref := corev1.ObjectReference{
			APIVersion: resource.ResourceRef.APIVersion, Kind: resource.ResourceRef.Kind,
			Namespace: shoot.Namespace, Name: resource.ResourceRef.Name,
		}
		problems, err := p.usable(ctx, a, ref, path.Child("resources").Index(i).Child("resourceRef"))
		if err != nil {
			return nil, err
		}
		errs = append(errs, problems...)
	}
	if spec.DNS == nil || equality.Semantic.DeepEqual(spec.DNS, before.DNS) {
		return errs, nil
	}
	for i, provider := range spec.DNS.Providers {
		if provider.CredentialsRef == nil {
			continue
		}
		ref := corev1.ObjectReference{
			APIVersion: provider.CredentialsRef.APIVersion, Kind: provider.CredentialsRef.Kind,
			Namespace: shoot.Namespace, Name: provider.CredentialsRef.Name,
		}
		problems, err := p.usable(ctx, a, ref, path.Child("dns", "providers").Index(i).Child("credentialsRef"))
		if err != nil {
			return nil, err
		}
		errs = append(errs, problems...)
	}
	return errs, nil
}

func contains(list []corev1beta1.NamedResourceReference, item corev1beta1.NamedResourceReference) bool {
	for _, i := range list {
		if i == item {
			return true
		}
	}
	return false
}

// usable says whether an object exists and the caller may read it. Otherwise a reference would be a way to get at what
// one may not see.
func (p *plugin) usable(ctx context.Context, a admission.Attributes, ref corev1.ObjectReference, path *field.Path) (field.ErrorList, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return field.ErrorList{field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error())}, nil
	}
	resource := strings.ToLower(ref.Kind) + "s"
	if ref.Kind == "WorkloadIdentity" {
		resource = "workloadidentities"
	}
	decision, _, err := p.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "get", APIGroup: gv.Group, APIVersion: gv.Version, Resource: resource,
		Namespace: ref.Namespace, Name: ref.Name, ResourceRequest: true,
	})
	if err != nil {
		return nil, fmt.Errorf("authorize reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	if decision != authorizer.DecisionAllow {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("user %q may not get %s %s/%s", a.GetUserInfo().GetName(), ref.Kind, ref.Namespace, ref.Name))}, nil
	}
	reader := p.Garden
	if gv.Group == corev1beta1.GroupName || gv.Group == securityv1alpha1.GroupName {
		reader = p.Live
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gv.WithKind(ref.Kind))
	err = reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return field.ErrorList{field.NotFound(path, ref.Kind+" "+ref.Namespace+"/"+ref.Name)}, nil
	}
	return nil, err
}

func (p *plugin) secretBinding(ctx context.Context, a admission.Attributes, binding *corev1beta1.SecretBinding) (field.ErrorList, error) {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: binding.SecretRef.Namespace, Name: binding.SecretRef.Name}
	return p.binding(ctx, a, binding.Namespace, ref, field.NewPath("secretRef"), binding.Quotas)
}

func (p *plugin) credentialsBinding(ctx context.Context, a admission.Attributes, binding *securityv1alpha1.CredentialsBinding) (field.ErrorList, error) {
	return p.binding(ctx, a, binding.Namespace, binding.CredentialsRef, field.NewPath("credentialsRef"), binding.Quotas)
}

// binding checks the credentials and quotas of a binding. There is at most one quota per kind of scope.
func (p *plugin) binding(ctx context.Context, a admission.Attributes, namespace string, ref corev1.ObjectReference, path *field.Path, quotas []corev1.ObjectReference) (field.ErrorList, error) {
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	errs, err := p.usable(ctx, a, ref, path)
	if err != nil {
		return nil, err
	}
	scopes := map[string]bool{}
	for i, quota := range quotas {
		path := field.NewPath("quotas").Index(i)
		if quota.Namespace == "" {
			quota.Namespace = namespace
		}
		quota.APIVersion, quota.Kind = corev1beta1.SchemeGroupVersion.String(), "Quota"
		problems, err := p.usable(ctx, a, quota, path)
		if err != nil {
			return nil, err
		}
		errs = append(errs, problems...)
		if len(problems) > 0 {
			continue
		}
		object := &corev1beta1.Quota{}
		if err := p.Get(ctx, quota.Namespace, quota.Name, object); err != nil {
			return nil, err
		}
		scope := "credentials"
		if object.Spec.Scope.Kind == "Project" {
			scope = "project"
		}
		if scopes[scope] {
			errs = append(errs, field.Forbidden(path, "only one quota with the scope "+scope))
		}
		scopes[scope] = true
	}
	return errs, nil
}
