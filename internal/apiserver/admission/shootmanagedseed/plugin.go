// Package shootmanagedseed rejects changes to Shoots that would break the Seeds running in them.
package shootmanagedseed

import (
	"context"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootManagedSeed"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks Shoots of the namespace garden that a ManagedSeed refers to.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() != corev1beta1.GardenNamespace {
		return nil
	}
	if concerns, err := p.Concerns(a, "shoots"); !concerns {
		return err
	}
	old, ok := a.GetOldObject().(*corev1beta1.Shoot)
	if !ok {
		return nil
	}
	shoot, _ := a.GetObject().(*corev1beta1.Shoot)
	deletion := a.GetOperation() == admission.Delete
	if !deletion && (shoot == nil || equality.Semantic.DeepEqual(shoot.Spec, old.Spec)) {
		return nil
	}
	managed, err := p.ManagedSeedOf(ctx, old.Namespace, old.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if managed == nil {
		return nil
	}
	if deletion {
		return admission.NewForbidden(a, fmt.Errorf("ManagedSeed %q makes the Shoot a Seed; delete it first", managed.Name))
	}
	var registered []string
	seed := &corev1beta1.Seed{}
	switch err := p.Get(ctx, "", managed.Name, seed); {
	case err == nil:
		registered = seed.Spec.Provider.Zones
	case !apierrors.IsNotFound(err):
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Refuse(a, changes(shoot, old, registered))
}

// changes returns the changes that would break the Seed. registered are the zones of the Seed.
func changes(shoot, old *corev1beta1.Shoot, registered []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if addons := shoot.Spec.Addons; addons != nil && addons.NginxIngress != nil && addons.NginxIngress.Enabled {
		errs = append(errs, field.Forbidden(path.Child("addons", "nginxIngress", "enabled"),
			"the Seed brings its own ingress; set it to false"))
	}
	if vpa := shoot.Spec.Kubernetes.VerticalPodAutoscaler; vpa == nil || !vpa.Enabled {
		errs = append(errs, field.Forbidden(path.Child("kubernetes", "verticalPodAutoscaler", "enabled"),
			"the Seed needs it; set it to true"))
	}
	nodes := func(s *corev1beta1.Shoot) *string {
		if s.Spec.Networking == nil {
			return nil
		}
		return s.Spec.Networking.Nodes
	}
	if before := nodes(old); before != nil && !equality.Semantic.DeepEqual(nodes(shoot), before) {
		errs = append(errs, field.Invalid(path.Child("networking", "nodes"), nodes(shoot),
			fmt.Sprintf("is %s in the Seed, and cannot change", *before)))
	}
	now, before := ZonesOf(shoot), ZonesOf(old)
	for _, zone := range registered {
		if slices.Contains(before, zone) && !slices.Contains(now, zone) {
			errs = append(errs, field.Forbidden(path.Child("provider", "workers"),
				fmt.Sprintf("zone %q is used by the Seed and cannot be removed; keep it in a pool", zone)))
		}
	}
	return errs
}

// ZonesOf returns the zones of all pools, sorted.
func ZonesOf(shoot *corev1beta1.Shoot) []string {
	var zones []string
	for _, worker := range shoot.Spec.Provider.Workers {
		zones = append(zones, worker.Zones...)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
