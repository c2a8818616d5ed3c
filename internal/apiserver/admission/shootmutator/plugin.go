// Package shootmutator completes Shoots: versions and images from the cloud profile, address ranges from the Seed, and
// the tasks that a change requires.
package shootmutator

import (
	"context"
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/cloudprofile"
	"hortus.dev/hortus/internal/maintenance"
)

// Name of the plugin.
const Name = "ShootMutator"

// defaultETCDKeyRotation is the rotation period of the etcd encryption key of a new Shoot: 28 days.
const defaultETCDKeyRotation = 672 * time.Hour

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit completes a Shoot.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots", "binding"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok {
		return apierrors.NewBadRequest("the object is no Shoot")
	}
	old, _ := a.GetOldObject().(*corev1beta1.Shoot)
	if a.GetOperation() == admission.Create {
		old = nil
		if err := create(shoot, a.GetUserInfo().GetName()); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	} else {
		update(shoot, old)
	}
	if a.GetSubresource() == "" {
		for _, text := range corev1beta1.WarningsShoot(shoot, old, p.Clock.Now()) {
			warning.AddWarning(ctx, "", text)
		}
	}
	if err := p.fromSeed(ctx, shoot); err != nil {
		return err
	}
	return p.fromProfile(ctx, a, shoot, old)
}

func create(shoot *corev1beta1.Shoot, user string) error {
	spec := &shoot.Spec
	if name, ref := spec.CloudProfileName, spec.CloudProfile; name != nil && ref != nil &&
		(ref.Kind != corev1beta1.CloudProfileKind || ref.Name != *name) {
		return errors.New("spec.cloudProfileName and spec.cloudProfile name different profiles; give only spec.cloudProfile")
	}
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, corev1beta1.AnnotationCreatedBy, user)
	addTasks(shoot, allDeployTasks...)
	if spec.Maintenance == nil {
		spec.Maintenance = &corev1beta1.Maintenance{}
	}
	if spec.Maintenance.AutoRotation == nil {
		spec.Maintenance.AutoRotation = &corev1beta1.MaintenanceAutoRotation{}
	}
	if spec.Maintenance.AutoRotation.Credentials == nil {
		spec.Maintenance.AutoRotation.Credentials = &corev1beta1.MaintenanceCredentialsAutoRotation{}
	}
	if credentials := spec.Maintenance.AutoRotation.Credentials; credentials.ETCDEncryptionKey == nil ||
		credentials.ETCDEncryptionKey.RotationPeriod == nil {
		credentials.ETCDEncryptionKey = &corev1beta1.MaintenanceRotationConfig{
			RotationPeriod: &metav1.Duration{Duration: defaultETCDKeyRotation},
		}
	}
	return nil
}

// fromSeed sets the address ranges that a scheduled Shoot leaves empty to the Seed's defaults for Shoots.
func (p *plugin) fromSeed(ctx context.Context, shoot *corev1beta1.Shoot) error {
	if shoot.Spec.SeedName == nil || *shoot.Spec.SeedName == "" || shoot.DeletionTimestamp != nil {
		return nil
	}
	networking := shoot.Spec.Networking
	if networking != nil && networking.Services != nil && (networking.Pods != nil || !shoot.HasWorkers()) {
		return nil
	}
	seed := &corev1beta1.Seed{}
	if err := p.Get(ctx, "", *shoot.Spec.SeedName, seed); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // Rejected by the plugin resourcereference.
		}
		return apierrors.NewInternalError(err)
	}
	networksFromSeed(shoot, seed)
	return nil
}

func networksFromSeed(shoot *corev1beta1.Shoot, seed *corev1beta1.Seed) {
	if seed.Spec.Networks.ShootDefaults == nil {
		return
	}
	if shoot.Spec.Networking == nil {
		shoot.Spec.Networking = &corev1beta1.Networking{}
	}
	shoot.Spec.Networking = corev1beta1.NetworksOnSeed(shoot, &seed.Spec.Networks)
}

// fromProfile completes versions and machine images, and warns of those that are deprecated or expire soon.
func (p *plugin) fromProfile(ctx context.Context, a admission.Attributes, shoot, old *corev1beta1.Shoot) error {
	if shoot.Spec.CloudProfile == nil || shoot.Spec.CloudProfile.Name == "" || shoot.DeletionTimestamp != nil {
		return nil // Validation requires a profile.
	}
	profile, err := p.Profile(ctx, shoot.Namespace, *shoot.Spec.CloudProfile)
	if err != nil {
		return hortusadmission.InternalError(err)
	}
	now := p.Clock.Now()
	if errs := cloudprofile.DefaultShoot(shoot, old, profile.Versions, now); len(errs) > 0 {
		return hortusadmission.Forbid(a, errs)
	}
	if a.GetSubresource() == "" {
		for _, text := range maintenance.Warnings(shoot, old, profile.Versions, now) {
			warning.AddWarning(ctx, "", text)
		}
	}
	return nil
}
