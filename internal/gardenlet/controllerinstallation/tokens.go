package controllerinstallation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1v1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	resourcesv1alpha1 "hortus.dev/hortus/api/resources/v1alpha1"
)

// errNotInjected is why the Secret for injected kubeconfigs gets no token.
var errNotInjected = errors.New("the ControllerDeployment does not set injectGardenKubeconfig")

// TokenPolicy decides which Secrets in a seed may have tokens of which ServiceAccounts in the garden. Components of
// Shoots and extensions write Secrets in the seed, so neither labels nor annotations of a Secret prove whose it is: its
// namespace does.
type TokenPolicy struct {
	Garden client.Reader // Cached.
	Seed   client.Reader // Direct.
	// SeedName is the own seed.
	SeedName string
}

// Labels returns the labels that the ServiceAccount must have whose tokens a Secret requests. The error is terminal if
// the Secret may not have them.
func (p *TokenPolicy) Labels(ctx context.Context, secret *corev1.Secret) (map[string]string, error) {
	installation, err := p.installation(ctx, secret.Namespace)
	if err != nil {
		return nil, err
	}
	if installation == nil {
		return nil, reconcile.TerminalError(fmt.Errorf(
			"metadata.namespace: unsupported value: %q (must be the namespace of an extension: "+
				"the label %s=%s, and the name %s<ControllerInstallation> with one of Seed %q)",
			secret.Namespace, corev1beta1.LabelRole, corev1beta1.RoleExtension, corev1beta1.ExtensionNamespacePrefix,
			p.SeedName))
	}
	account := secret.Annotations[resourcesv1alpha1.AnnotationServiceAccountName]
	if !ownsAccount(secret.Namespace, account) {
		return nil, reconcile.TerminalError(fmt.Errorf(
			"metadata.annotations[%s]: unsupported value: %q (must be %q, or begin with %q)",
			resourcesv1alpha1.AnnotationServiceAccountName, account, secret.Namespace, secret.Namespace+"."))
	}
	if secret.Name == gardenAccessSecret {
		if err := p.injected(ctx, installation); err != nil {
			return nil, err
		}
	}
	return map[string]string{
		labelRegistration:                  installation.Spec.RegistrationRef.Name,
		resourcesv1alpha1.LabelRequestedIn: secret.Namespace,
	}, nil
}

// injected returns an error unless the deployment of an extension requests access to the garden. When it does not any
// more, the Secret exists for a while; the ServiceAccount must not be created again by then. The error is not terminal:
// the deployment may request access again without a change of the Secret.
func (p *TokenPolicy) injected(ctx context.Context, installation *corev1beta1.ControllerInstallation) error {
	if ref := installation.Spec.DeploymentRef; ref != nil {
		deployment := &corev1v1.ControllerDeployment{}
		if err := p.Garden.Get(ctx, client.ObjectKey{Name: ref.Name}, deployment); err != nil {
			return fmt.Errorf("read ControllerDeployment %q: %w", ref.Name, err)
		}
		if ptr.Deref(deployment.InjectGardenKubeconfig, false) {
			return nil
		}
	}
	return errNotInjected
}

// installation returns the ControllerInstallation of the extension in a namespace, nil if the namespace is not that of
// an extension.
func (p *TokenPolicy) installation(
	ctx context.Context, namespace string,
) (*corev1beta1.ControllerInstallation, error) {
	name, prefixed := strings.CutPrefix(namespace, corev1beta1.ExtensionNamespacePrefix)
	if !prefixed {
		return nil, nil
	}
	installation := &corev1beta1.ControllerInstallation{}
	if err := p.Garden.Get(ctx, client.ObjectKey{Name: name}, installation); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read ControllerInstallation %q: %w", name, err)
	}
	if ref := installation.Spec.SeedRef; ref == nil || ref.Name != p.SeedName {
		return nil, nil
	}
	inSeed := &corev1.Namespace{}
	if err := p.Seed.Get(ctx, client.ObjectKey{Name: namespace}, inSeed); err != nil {
		return nil, fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	if inSeed.Labels[corev1beta1.LabelRole] != corev1beta1.RoleExtension {
		return nil, nil
	}
	return installation, nil
}

// ownsAccount reports whether a ServiceAccount in the garden belongs to the extension in a namespace. Names of
// namespaces have no dots, so it belongs to one extension at most.
func ownsAccount(namespace, account string) bool {
	return account == namespace || strings.HasPrefix(account, namespace+".")
}
