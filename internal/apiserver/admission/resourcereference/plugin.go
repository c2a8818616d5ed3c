// Package resourcereference checks that the objects a new or changed object refers to exist and may be read by the
// caller, and that nothing in use is deleted.
package resourcereference

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gardencorev1 "hortus.dev/hortus/api/core/v1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ResourceReferenceManager"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks references. Problems result in status 403 and are listed together.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" && a.GetSubresource() != "binding" {
		return nil
	}
	check := p.checkOf(a)
	if check == nil {
		return nil
	}
	if err := p.Await(a); err != nil {
		return err
	}
	errs, err := check(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Forbid(a, errs)
}

type check func(context.Context) (field.ErrorList, error)

func (p *plugin) checkOf(a admission.Attributes) check {
	if a.GetOperation() == admission.Delete {
		return p.deletion(a)
	}
	switch object := a.GetObject().(type) {
	case *corev1beta1.Shoot:
		old, _ := a.GetOldObject().(*corev1beta1.Shoot)
		if object.DeletionTimestamp != nil {
			return nil
		}
		return func(ctx context.Context) (field.ErrorList, error) { return p.shoot(ctx, a, object, old) }
	case *corev1beta1.SecretBinding:
		if a.GetOperation() == admission.Create {
			return func(ctx context.Context) (field.ErrorList, error) { return p.binding(ctx, a, ofSecretBinding(object)) }
		}
		if old, ok := a.GetOldObject().(*corev1beta1.SecretBinding); ok &&
			!equality.Semantic.DeepEqual(object.Provider, old.Provider) {
			return func(ctx context.Context) (field.ErrorList, error) { return p.users(ctx, ofSecretBinding(object)) }
		}
	case *securityv1alpha1.CredentialsBinding:
		if a.GetOperation() == admission.Create {
			return func(ctx context.Context) (field.ErrorList, error) {
				return p.binding(ctx, a, ofCredentialsBinding(object))
			}
		}
	case *corev1beta1.Project:
		return func(ctx context.Context) (field.ErrorList, error) { return p.project(ctx, object) }
	case *corev1beta1.CloudProfile:
		old, ok := a.GetOldObject().(*corev1beta1.CloudProfile)
		if ok && a.GetOperation() == admission.Update && !equality.Semantic.DeepEqual(object.Spec, old.Spec) {
			return func(ctx context.Context) (field.ErrorList, error) { return p.cloudProfile(ctx, object, old) }
		}
	case *corev1beta1.Seed:
		old, _ := a.GetOldObject().(*corev1beta1.Seed)
		if old == nil || a.GetOperation() == admission.Create {
			old = &corev1beta1.Seed{}
		}
		if refs := namedBySeed(object, old); len(refs) > 0 && object.DeletionTimestamp == nil {
			return func(ctx context.Context) (field.ErrorList, error) { return p.checkAll(ctx, a, refs) }
		}
	case *corev1beta1.ControllerRegistration:
		old, _ := a.GetOldObject().(*corev1beta1.ControllerRegistration)
		if a.GetOperation() == admission.Create {
			old = nil
		}
		return func(ctx context.Context) (field.ErrorList, error) { return p.deployments(ctx, object, old) }
	case *corev1beta1.BackupBucket:
		if old, ok := a.GetOldObject().(*corev1beta1.BackupBucket); ok && a.GetOperation() == admission.Update &&
			equality.Semantic.DeepEqual(object.Spec.SeedName, old.Spec.SeedName) {
			return nil
		}
		return func(ctx context.Context) (field.ErrorList, error) {
			return p.optional(ctx, "", object.Spec.SeedName, &corev1beta1.Seed{}, field.NewPath("spec", "seedName"))
		}
	case *corev1beta1.BackupEntry:
		old, _ := a.GetOldObject().(*corev1beta1.BackupEntry)
		return func(ctx context.Context) (field.ErrorList, error) { return p.backupEntry(ctx, object, old) }
	}
	return nil
}

func (p *plugin) checkAll(ctx context.Context, a admission.Attributes, refs []reference) (field.ErrorList, error) {
	var errs field.ErrorList
	for _, ref := range refs {
		problems, err := p.check(ctx, a, ref)
		if err != nil {
			return nil, err
		}
		errs = append(errs, problems...)
	}
	return errs, nil
}

// deployments checks that the ControllerDeployments of a registration exist.
func (p *plugin) deployments(
	ctx context.Context, registration, old *corev1beta1.ControllerRegistration,
) (field.ErrorList, error) {
	if registration.Spec.Deployment == nil || old != nil &&
		equality.Semantic.DeepEqual(registration.Spec.Deployment, old.Spec.Deployment) {
		return nil, nil
	}
	var errs field.ErrorList
	for i, ref := range registration.Spec.Deployment.DeploymentRefs {
		err := p.Live.Get(ctx, client.ObjectKey{Name: ref.Name}, &gardencorev1.ControllerDeployment{})
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, field.NotFound(field.NewPath("spec", "deployment", "deploymentRefs").Index(i).Child("name"),
				ref.Name))
		case err != nil:
			return nil, err
		}
	}
	return errs, nil
}

// exists checks that an object of our own kinds exists.
func (p *plugin) exists(
	ctx context.Context, namespace, name string, object client.Object, path *field.Path,
) (field.ErrorList, error) {
	err := p.Get(ctx, namespace, name, object)
	if apierrors.IsNotFound(err) {
		return field.ErrorList{field.NotFound(path, name)}, nil
	}
	return nil, err
}

// optional is exists for references that may be empty.
func (p *plugin) optional(
	ctx context.Context, namespace string, name *string, object client.Object, path *field.Path,
) (field.ErrorList, error) {
	if name == nil || *name == "" {
		return nil, nil
	}
	return p.exists(ctx, namespace, *name, object, path)
}

func (p *plugin) project(ctx context.Context, project *corev1beta1.Project) (field.ErrorList, error) {
	if project.Spec.Namespace == nil {
		return nil, nil
	}
	other, err := p.ProjectOf(ctx, *project.Spec.Namespace)
	if err != nil || other == nil || other.Name == project.Name {
		return nil, err
	}
	return field.ErrorList{
		field.Forbidden(field.NewPath("spec", "namespace"),
			fmt.Sprintf("%q belongs to project %q; name another one", *project.Spec.Namespace, other.Name)),
	}, nil
}

func (p *plugin) backupEntry(ctx context.Context, entry, old *corev1beta1.BackupEntry) (field.ErrorList, error) {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if old == nil || !equality.Semantic.DeepEqual(entry.Spec.SeedName, old.Spec.SeedName) {
		seed, err := p.optional(ctx, "", entry.Spec.SeedName, &corev1beta1.Seed{}, path.Child("seedName"))
		if err != nil {
			return nil, err
		}
		errs = append(errs, seed...)
	}
	if old != nil && entry.Spec.BucketName == old.Spec.BucketName {
		return errs, nil
	}
	err := p.Live.Get(ctx, client.ObjectKey{Name: entry.Spec.BucketName}, &corev1beta1.BackupBucket{})
	if apierrors.IsNotFound(err) {
		return append(errs, field.NotFound(path.Child("bucketName"), entry.Spec.BucketName)), nil
	}
	return errs, err
}

// deletion checks that nothing refers to an object that is being deleted.
func (p *plugin) deletion(a admission.Attributes) check {
	switch object := a.GetOldObject().(type) {
	case *corev1beta1.BackupBucket:
		return func(ctx context.Context) (field.ErrorList, error) {
			entries := &corev1beta1.BackupEntryList{}
			if err := p.Live.List(ctx, entries, client.MatchingFields{"spec.bucketName": object.Name},
				client.Limit(1)); err != nil {
				return nil, err
			}
			if len(entries.Items) == 0 {
				return nil, nil
			}
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "name"),
				fmt.Sprintf("BackupEntry %s/%s uses the bucket; delete it first", entries.Items[0].Namespace,
					entries.Items[0].Name))}, nil
		}
	}
	return nil
}
