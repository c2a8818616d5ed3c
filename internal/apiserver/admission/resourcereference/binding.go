package resourcereference

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// binding holds the fields that both kinds of bindings share.
type binding struct {
	namespace   string
	key         string // Key in the index of Shoots.
	credentials corev1.ObjectReference
	path        *field.Path // Of credentials.
	provider    string      // Provider types, separated by commas; empty for old SecretBindings.
	quotas      []corev1.ObjectReference
}

func ofSecretBinding(b *corev1beta1.SecretBinding) binding {
	ref := corev1.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: b.SecretRef.Namespace, Name: b.SecretRef.Name,
	}
	provider := ""
	if b.Provider != nil {
		provider = b.Provider.Type
	}
	return newBinding(b.Namespace, hortusadmission.BindingKey(true, b.Name), ref, "secretRef", provider, b.Quotas)
}

func ofCredentialsBinding(b *securityv1alpha1.CredentialsBinding) binding {
	return newBinding(b.Namespace, hortusadmission.BindingKey(false, b.Name), b.CredentialsRef, "credentialsRef",
		b.Provider.Type, b.Quotas)
}

func newBinding(
	namespace, key string, ref corev1.ObjectReference, path, provider string, quotas []corev1.ObjectReference,
) binding {
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	return binding{namespace, key, ref, field.NewPath(path), provider, quotas}
}

// binding checks a new binding. It may have at most one quota per scope.
func (p *plugin) binding(ctx context.Context, a admission.Attributes, b binding) (field.ErrorList, error) {
	errs, err := p.check(ctx, a, reference{ObjectReference: b.credentials, path: b.path})
	if err != nil {
		return nil, err
	}
	if len(errs) == 0 {
		if errs, err = p.credentials(ctx, b); err != nil {
			return nil, err
		}
	}
	scopes := map[string]int{} // Scopes, with the index of their quota.
	for i, quota := range b.quotas {
		path := field.NewPath("quotas").Index(i)
		if quota.Namespace == "" {
			quota.Namespace = b.namespace
		}
		quota.APIVersion, quota.Kind = corev1beta1.SchemeGroupVersion.String(), "Quota"
		problems, err := p.check(ctx, a, reference{ObjectReference: quota, path: path})
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
		scope := scopeOf(object)
		if first, taken := scopes[scope]; taken {
			errs = append(errs, field.Invalid(path, quota.Namespace+"/"+quota.Name,
				fmt.Sprintf("has the scope %s, as quotas[%d]; at most one of each scope is allowed", scope, first)))
			continue
		}
		scopes[scope] = i
	}
	users, err := p.users(ctx, b)
	return append(errs, users...), err
}

func scopeOf(quota *corev1beta1.Quota) string {
	if quota.Spec.Scope.Kind == "Project" {
		return "project"
	}
	return "credentials"
}

// users checks that a binding fits the Shoots that already use it.
func (p *plugin) users(ctx context.Context, b binding) (field.ErrorList, error) {
	if b.provider == "" {
		return nil, nil
	}
	shoots, err := p.ShootsOfBinding(ctx, b.namespace, b.key)
	if err != nil {
		return nil, err
	}
	return otherProviders(b.provider, shoots), nil
}

func otherProviders(types string, shoots []corev1beta1.Shoot) field.ErrorList {
	for i := range shoots {
		if provider := shoots[i].Spec.Provider.Type; !slices.Contains(strings.Split(types, ","), provider) {
			return field.ErrorList{field.Invalid(field.NewPath("provider", "type"), types,
				fmt.Sprintf("Shoot %q uses the binding; its provider type is %q", shoots[i].Name, provider))}
		}
	}
	return nil
}

// credentials checks that a binding refers to credentials of its provider.
func (p *plugin) credentials(ctx context.Context, b binding) (field.ErrorList, error) {
	key := client.ObjectKey{Namespace: b.credentials.Namespace, Name: b.credentials.Name}
	labels := map[string]string{}
	for _, provider := range strings.Split(b.provider, ",") {
		if provider != "" {
			labels[corev1beta1.LabelPrefixShootProvider+provider] = "true"
		}
	}
	meta := metav1.ObjectMeta{Namespace: key.Namespace, GenerateName: dryRunPrefix, Labels: labels}
	switch b.credentials.Kind {
	case "WorkloadIdentity":
		identity := &securityv1alpha1.WorkloadIdentity{}
		if err := p.Live.Get(ctx, key, identity); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return otherTarget(identity, b.provider, b.path), nil
	case "InternalSecret":
		secret := &corev1beta1.InternalSecret{}
		if err := p.Live.Get(ctx, key, secret); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return refusedCopy(b, p.DryRunOwn.Create(ctx, &corev1beta1.InternalSecret{
			ObjectMeta: meta, Type: secret.Type, Data: secret.Data,
		}))
	default:
		secret := &corev1.Secret{}
		if err := p.Garden.Get(ctx, key, secret); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return refusedCopy(b, p.DryRun.Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: secret.Type, Data: secret.Data}))
	}
}

// dryRunPrefix is the name prefix of the dry-run copies that the provider's webhooks check. None is ever stored.
const dryRunPrefix = "check-credentials-"

func otherTarget(identity *securityv1alpha1.WorkloadIdentity, provider string, path *field.Path) field.ErrorList {
	if target := identity.Spec.TargetSystem.Type; target != provider {
		return field.ErrorList{
			field.Invalid(path, identity.Name,
				fmt.Sprintf("its spec.targetSystem.type is %q, the provider type of the binding is %q", target, provider)),
		}
	}
	return nil
}

// refusedCopy turns a rejection of the credentials by the provider's webhook into a field error.
func refusedCopy(b binding, err error) (field.ErrorList, error) {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return field.ErrorList{
			field.Invalid(b.path, b.credentials.Name, fmt.Sprintf("refused as credentials of provider %q: %v", b.provider, err)),
		}, nil
	}
	return nil, err
}
