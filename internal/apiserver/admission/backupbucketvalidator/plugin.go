// Package backupbucketvalidator requires a WorkloadIdentity for backups to be one for the bucket's provider. It warns
// of deprecated fields and of settings without effect.
package backupbucketvalidator

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "BackupBucketValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit warns of the deprecated spelling of the credentials and of settings without effect, also for BackupEntries. It
// warns before the strategy fills in the other spelling.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	var texts []string
	switch object := a.GetObject().(type) {
	case *corev1beta1.BackupBucket:
		old, _ := a.GetOldObject().(*corev1beta1.BackupBucket)
		texts = corev1beta1.WarningsBackupBucket(object, old)
	case *corev1beta1.BackupEntry:
		old, _ := a.GetOldObject().(*corev1beta1.BackupEntry)
		texts = corev1beta1.WarningsBackupEntry(object, old)
	}
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
	return nil
}

// Validate checks new credentials.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "backupbuckets"); !concerns {
		return err
	}
	bucket, ok := a.GetObject().(*corev1beta1.BackupBucket)
	if !ok || bucket.DeletionTimestamp != nil || bucket.Spec.CredentialsRef == nil ||
		bucket.Spec.CredentialsRef.Kind != "WorkloadIdentity" {
		return nil
	}
	if old, ok := a.GetOldObject().(*corev1beta1.BackupBucket); ok && a.GetOperation() == admission.Update &&
		equality.Semantic.DeepEqual(bucket.Spec.CredentialsRef, old.Spec.CredentialsRef) {
		return nil
	}
	ref := bucket.Spec.CredentialsRef
	target, err := p.TargetOfIdentity(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Forbid(a, MismatchedIdentity(field.NewPath("spec", "credentialsRef"),
		ref.Namespace+"/"+ref.Name, target, bucket.Spec.Provider.Type))
}

// MismatchedIdentity compares a WorkloadIdentity's target type with a provider type. target is empty if the
// WorkloadIdentity does not exist.
func MismatchedIdentity(path *field.Path, identity, target, provider string) field.ErrorList {
	switch target {
	case provider:
		return nil
	case "":
		return field.ErrorList{field.NotFound(path, "WorkloadIdentity "+identity)}
	}
	return field.ErrorList{
		field.Invalid(path, identity,
			fmt.Sprintf("the WorkloadIdentity has spec.targetSystem.type %q, must be %q, the provider of the backups", target,
				provider)),
	}
}
