// Package managedseed completes the Seed of a ManagedSeed from its Shoot, and rejects values that contradict the Shoot.
package managedseed

import (
	"context"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/admission/seedvalidator"
)

// Name of the plugin.
const Name = "ManagedSeed"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

var (
	specPath   = field.NewPath("spec")
	shootPath  = specPath.Child("shoot", "name")
	configPath = specPath.Child("gardenlet", "config", "seedConfig")
)

// Admit completes a ManagedSeed. Invalid fields result in status 422.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "managedseeds"); !concerns {
		return err
	}
	managed, ok := a.GetObject().(*seedmanagementv1alpha1.ManagedSeed)
	if !ok || managed.DeletionTimestamp != nil {
		return nil
	}
	if a.GetNamespace() != corev1beta1.GardenNamespace {
		return hortusadmission.Refuse(a,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "namespace"), a.GetNamespace(),
				fmt.Sprintf("must be %q", corev1beta1.GardenNamespace))})
	}
	if managed.Spec.Shoot == nil || managed.Spec.Shoot.Name == "" {
		return nil // Validation requires it.
	}
	shoot := &corev1beta1.Shoot{}
	if err := p.Live.Get(ctx, client.ObjectKey{Namespace: a.GetNamespace(), Name: managed.Spec.Shoot.Name},
		shoot); err != nil {
		if apierrors.IsNotFound(err) {
			return hortusadmission.Refuse(a, field.ErrorList{field.NotFound(shootPath, managed.Spec.Shoot.Name)})
		}
		return apierrors.NewInternalError(err)
	}
	other, err := p.ManagedSeedOf(ctx, a.GetNamespace(), shoot.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	errs := unfit(shoot)
	if other != nil && other.Name != managed.Name {
		errs = append(errs, field.Invalid(shootPath, shoot.Name,
			fmt.Sprintf("is the Shoot of ManagedSeed %q already; each needs one of its own", other.Name)))
	}
	if len(errs) > 0 {
		return hortusadmission.Refuse(a, errs)
	}
	managed.Labels = hortusadmission.SeedLabels(managed.Labels, shoot.Spec.SeedName, shoot.Status.SeedName)
	return p.complete(ctx, a, managed, shoot)
}

func (p *plugin) complete(
	ctx context.Context, a admission.Attributes, managed *seedmanagementv1alpha1.ManagedSeed, shoot *corev1beta1.Shoot,
) error {
	config, err := readConfig(managed.Spec.Gardenlet.Config)
	if config == nil || err != nil {
		return nil // Rejected by validation.
	}
	domains, err := p.defaultDomainsOf(ctx, shoot)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	fillSeed(&config.seed.Spec, shoot, domains)
	errs := contradictions(&config.seed.Spec, shoot)
	if old, ok := a.GetOldObject().(*seedmanagementv1alpha1.ManagedSeed); ok && a.GetOperation() == admission.Update {
		if before, err := readConfig(old.Spec.Gardenlet.Config); before != nil && err == nil {
			shoots, err := p.ShootsOnSeed(ctx, managed.Name)
			if err != nil {
				return apierrors.NewInternalError(err)
			}
			errs = append(errs, seedvalidator.Lost(&config.seed.Spec, &before.seed.Spec, shoots, configPath.Child("spec"))...)
		}
	}
	if len(errs) > 0 {
		return hortusadmission.Refuse(a, errs)
	}
	if managed.Spec.Gardenlet.Config, err = config.write(); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

func (p *plugin) defaultDomainsOf(
	ctx context.Context, shoot *corev1beta1.Shoot,
) ([]corev1beta1.SeedDNSProviderConfig, error) {
	if shoot.Spec.SeedName == nil {
		return nil, nil
	}
	seed := &corev1beta1.Seed{}
	if err := p.Get(ctx, "", *shoot.Spec.SeedName, seed); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return seed.Spec.DNS.Defaults, nil
}

// unfit returns the reasons why a Shoot cannot become a Seed.
func unfit(shoot *corev1beta1.Shoot) field.ErrorList {
	var problems []string
	if shoot.DeletionTimestamp != nil {
		problems = append(problems, "is being deleted")
	}
	if shoot.Spec.DNS == nil || shoot.Spec.DNS.Domain == nil || *shoot.Spec.DNS.Domain == "" {
		problems = append(problems, "has no spec.dns.domain")
	}
	if !shoot.HasWorkers() {
		problems = append(problems, "has no workers")
	}
	if vpa := shoot.Spec.Kubernetes.VerticalPodAutoscaler; vpa == nil || !vpa.Enabled {
		problems = append(problems, "must have spec.kubernetes.verticalPodAutoscaler.enabled=true")
	}
	if addons := shoot.Spec.Addons; addons != nil && addons.NginxIngress != nil && addons.NginxIngress.Enabled {
		problems = append(problems, "must have spec.addons.nginxIngress.enabled=false")
	}
	if len(problems) == 0 {
		return nil
	}
	return field.ErrorList{
		field.Invalid(shootPath, shoot.Name, "the Shoot cannot become a Seed: it "+strings.Join(problems, ", it ")),
	}
}
