// Package seedvalidator keeps Seeds from losing what their Shoots use, and marks them with their own name.
package seedvalidator

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "SeedValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Admit marks a Seed with its own name, as everything else is that matters to it.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	seed, ok := a.GetObject().(*corev1beta1.Seed)
	if !ok || a.GetSubresource() != "" || seed.Name == "" {
		return nil
	}
	seed.Labels = maps.Clone(seed.Labels)
	if seed.Labels == nil {
		seed.Labels = map[string]string{}
	}
	seed.Labels[corev1beta1.LabelPrefixSeedName+seed.Name] = "true"
	return nil
}

// Validate looks at what an update takes away.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	concerns, err := p.Concerns(a, "seeds")
	if !concerns || a.GetOperation() != admission.Update {
		return err
	}
	seed, ok := a.GetObject().(*corev1beta1.Seed)
	old, isOld := a.GetOldObject().(*corev1beta1.Seed)
	if !ok || !isOld {
		return nil
	}
	lost := lose(&seed.Spec, &old.Spec)
	if lost.nothing() {
		return nil
	}
	shoots := &corev1beta1.ShootList{}
	if err := p.Live.List(ctx, shoots, client.MatchingFields{"spec.seedName": seed.Name}); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("list Shoots of Seed %q: %w", seed.Name, err))
	}
	return hortusadmission.Forbid(a, lost.usedBy(shoots.Items))
}

// losses is what an update takes away.
type losses struct {
	zones    []string
	internal bool
	domains  []string
}

func lose(spec, old *corev1beta1.SeedSpec) losses {
	var l losses
	for _, zone := range old.Provider.Zones {
		if !slices.Contains(spec.Provider.Zones, zone) {
			l.zones = append(l.zones, zone)
		}
	}
	internal := func(s *corev1beta1.SeedSpec) string {
		if s.DNS.Internal == nil {
			return ""
		}
		return s.DNS.Internal.Domain
	}
	l.internal = internal(old) != "" && internal(spec) != internal(old)
	for _, domain := range old.DNS.Defaults {
		if !slices.ContainsFunc(spec.DNS.Defaults, func(d corev1beta1.SeedDNSProviderConfig) bool { return d.Domain == domain.Domain }) {
			l.domains = append(l.domains, domain.Domain)
		}
	}
	return l
}

func (l losses) nothing() bool { return len(l.zones) == 0 && !l.internal && len(l.domains) == 0 }

func (l losses) usedBy(shoots []corev1beta1.Shoot) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	for i := range shoots {
		name := shoots[i].Namespace + "/" + shoots[i].Name
		if len(l.zones) > 0 {
			errs = append(errs, field.Forbidden(spec.Child("provider", "zones"), fmt.Sprintf("Shoot %s may be in the removed zones %v", name, l.zones)))
		}
		if l.internal {
			errs = append(errs, field.Forbidden(spec.Child("dns", "internal", "domain"), fmt.Sprintf("Shoot %s is reached through it", name)))
		}
		dns := shoots[i].Spec.DNS
		if dns == nil || dns.Domain == nil {
			continue
		}
		for _, domain := range l.domains {
			if strings.HasSuffix(*dns.Domain, "."+domain) {
				errs = append(errs, field.Forbidden(spec.Child("dns", "defaults"), fmt.Sprintf("Shoot %s uses the removed domain %s", name, domain)))
			}
		}
	}
	return errs
}
