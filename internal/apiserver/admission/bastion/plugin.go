// Package bastion completes Bastions from their Shoots, and rejects Bastions whose Shoot cannot have one.
package bastion

import (
	"context"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "Bastion"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit completes a new Bastion from its Shoot, and records its creator. Later changes cannot affect either.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	bastion, ok := a.GetObject().(*operationsv1alpha1.Bastion)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	if a.GetOperation() == admission.Update {
		if old, ok := a.GetOldObject().(*operationsv1alpha1.Bastion); ok {
			keepCreator(bastion, old)
		}
		return nil
	}
	metav1.SetMetaDataAnnotation(&bastion.ObjectMeta, corev1beta1.AnnotationCreatedBy, a.GetUserInfo().GetName())
	if errs := validateKey(bastion.Spec.SSHPublicKey); len(errs) > 0 {
		return hortusadmission.Refuse(a, errs)
	}
	if bastion.Spec.ShootRef.Name == "" {
		return nil // Validation requires it.
	}
	shoot := &corev1beta1.Shoot{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: a.GetNamespace(), Name: bastion.Spec.ShootRef.Name}, shoot)
	if apierrors.IsNotFound(err) {
		return hortusadmission.Refuse(a, field.ErrorList{field.NotFound(shootPath, bastion.Spec.ShootRef.Name)})
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Refuse(a, complete(bastion, shoot))
}

// validateKey: one key without options. Options could do on the machine what Bastions are not for. What is missing is
// reported by validation.
func validateKey(key string) field.ErrorList {
	if key == "" {
		return nil
	}
	path, hidden := field.NewPath("spec", "sshPublicKey"), field.OmitValueType{} // It may be a private key by mistake.
	_, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(key))
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, hidden, "must be a public key such as ssh-ed25519 AAAA... me@example.com")}
	case len(options) > 0:
		return field.ErrorList{field.Invalid(path, hidden, "must have no options before the type of the key")}
	case strings.TrimSpace(string(rest)) != "":
		return field.ErrorList{field.Invalid(path, hidden, "must be one public key")}
	}
	return nil
}

var shootPath = field.NewPath("spec", "shootRef", "name")

// keepCreator restores the record of the creator if an update changes it.
func keepCreator(bastion, old *operationsv1alpha1.Bastion) {
	creator, known := old.Annotations[corev1beta1.AnnotationCreatedBy]
	if known && bastion.Annotations[corev1beta1.AnnotationCreatedBy] != creator {
		metav1.SetMetaDataAnnotation(&bastion.ObjectMeta, corev1beta1.AnnotationCreatedBy, creator)
	}
}

func complete(bastion *operationsv1alpha1.Bastion, shoot *corev1beta1.Shoot) field.ErrorList {
	refuse := func(why string) field.ErrorList {
		return field.ErrorList{field.Invalid(shootPath, shoot.Name, why)}
	}
	switch settings := shoot.Spec.Provider.WorkersSettings; {
	case shoot.DeletionTimestamp != nil:
		return refuse("the Shoot is being deleted; choose another one")
	case shoot.Spec.SeedName == nil || *shoot.Spec.SeedName == "":
		return refuse("the Shoot has no Seed yet; try again when it is scheduled")
	case !shoot.HasWorkers():
		return refuse("the Shoot has no machines; name one with workers")
	case settings != nil && settings.SSHAccess != nil && !settings.SSHAccess.Enabled:
		return refuse("the Shoot's machines take no SSH connections; set its spec.provider.workersSettings.sshAccess.enabled to true")
	}
	seed, provider := *shoot.Spec.SeedName, shoot.Spec.Provider.Type
	bastion.Spec.SeedName, bastion.Spec.ProviderType = &seed, &provider
	return nil
}
