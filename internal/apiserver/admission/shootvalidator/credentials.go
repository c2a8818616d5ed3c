package shootvalidator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
)

// credentialsChange is a change of the binding of a Shoot.
type credentialsChange struct {
	from, to corev1.ObjectReference
	// migration is from a SecretBinding to a CredentialsBinding.
	migration bool
	// unreadable are those of from and to that the caller may not read.
	unreadable []corev1.ObjectReference
}

// readCredentialsChange returns nil if the binding does not change or either binding does not exist.
func (p *plugin) readCredentialsChange(
	ctx context.Context, a admission.Attributes, shoot, old *corev1beta1.Shoot,
) (*credentialsChange, error) {
	now, before := ptr.Deref(shoot.Spec.CredentialsBindingName, ""), ptr.Deref(old.Spec.CredentialsBindingName, "")
	if now == "" || now == before {
		return nil, nil
	}
	change := &credentialsChange{migration: before == "" && ptr.Deref(old.Spec.SecretBindingName, "") != ""}
	var found bool
	var err error
	if change.to, found, err = p.credentialsOf(ctx, shoot.Namespace, now); err != nil || !found {
		return nil, err
	}
	switch {
	case change.migration:
		binding := &corev1beta1.SecretBinding{}
		if err := p.Get(ctx, shoot.Namespace, *old.Spec.SecretBindingName, binding); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		change.from = corev1.ObjectReference{
			APIVersion: "v1", Kind: "Secret", Namespace: binding.SecretRef.Namespace, Name: binding.SecretRef.Name,
		}
		return change, nil
	case before == "":
		return nil, nil
	}
	if change.from, found, err = p.credentialsOf(ctx, shoot.Namespace, before); err != nil || !found {
		return nil, err
	}
	for _, ref := range []corev1.ObjectReference{change.from, change.to} {
		allowed, err := p.MayGet(ctx, a.GetUserInfo(), ref)
		if err != nil {
			return nil, err
		}
		if !allowed {
			change.unreadable = append(change.unreadable, ref)
		}
	}
	return change, nil
}

func (p *plugin) credentialsOf(ctx context.Context, namespace, name string) (corev1.ObjectReference, bool, error) {
	binding := &securityv1alpha1.CredentialsBinding{}
	err := p.Get(ctx, namespace, name, binding)
	if apierrors.IsNotFound(err) {
		return corev1.ObjectReference{}, false, nil
	}
	return binding.CredentialsRef, err == nil, err
}

// credentialsProblem requires a migration from a SecretBinding to a CredentialsBinding to keep the Secret. Any other
// change requires that the caller may read the old and the new credentials.
func (r *request) credentialsProblem() error {
	change := r.credentials
	if change == nil {
		return nil
	}
	if change.migration && (change.to.Kind != "Secret" || change.to.Namespace != change.from.Namespace ||
		change.to.Name != change.from.Name) {
		return fmt.Errorf("spec.credentialsBindingName: the CredentialsBinding refers to %s %s/%s; it must refer to Secret %s/%s, as the SecretBinding before",
			change.to.Kind, change.to.Namespace, change.to.Name, change.from.Namespace, change.from.Name)
	}
	for _, ref := range change.unreadable {
		return fmt.Errorf("spec.credentialsBindingName: to change it, the permission to get %s %s/%s is needed", ref.Kind,
			ref.Namespace, ref.Name)
	}
	return nil
}

// issuersConfigured reports whether the landscape publishes the keys of managed issuers: then the garden has a Secret
// with their host name.
func (p *plugin) issuersConfigured(ctx context.Context) (bool, error) {
	secrets := &corev1.SecretList{}
	err := p.Garden.List(ctx, secrets, client.InNamespace(corev1beta1.GardenNamespace), client.Limit(1),
		client.MatchingLabels{corev1beta1.LabelRole: roleIssuer})
	if err != nil {
		return false, fmt.Errorf("list Secrets with role %s: %w", roleIssuer, err)
	}
	return len(secrets.Items) > 0, nil
}

const roleIssuer = "shoot-service-account-issuer"

func managedIssuer(shoot *corev1beta1.Shoot) bool {
	return shoot != nil &&
		shoot.Annotations[corev1beta1.AnnotationAuthenticationIssuer] == corev1beta1.AuthenticationIssuerManaged
}

// issuerProblem checks a managed issuer of service account tokens, whose keys the garden publishes.
func (r *request) issuerProblem() error {
	const annotation = "metadata.annotations[" + corev1beta1.AnnotationAuthenticationIssuer + "]"
	if !managedIssuer(r.shoot) {
		if managedIssuer(r.old) && r.shoot.DeletionTimestamp == nil {
			return fmt.Errorf("%s: a managed issuer cannot be removed; keep the value %q", annotation,
				corev1beta1.AuthenticationIssuerManaged)
		}
		return nil
	}
	server := r.shoot.Spec.Kubernetes.KubeAPIServer
	if server != nil && server.ServiceAccountConfig != nil && server.ServiceAccountConfig.Issuer != nil {
		return fmt.Errorf("spec.kubernetes.kubeAPIServer.serviceAccountConfig.issuer: is %q, but must not be set with %s=%s",
			*server.ServiceAccountConfig.Issuer, annotation, corev1beta1.AuthenticationIssuerManaged)
	}
	if !managedIssuer(r.old) && !r.issuers {
		return fmt.Errorf("%s: the landscape manages no issuers; remove the annotation", annotation)
	}
	return nil
}
