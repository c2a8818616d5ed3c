// Package shootdns decides about the domains of Shoots: those below a default domain belong to one Shoot each by name,
// all others to whoever takes them first.
package shootdns

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
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootDNS"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

var domainPath = field.NewPath("spec", "dns", "domain")

// Admit makes the first provider the primary one where no default domain does that job.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots", "binding"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil || shoot.Spec.DNS == nil || len(shoot.Spec.DNS.Providers) == 0 || shoot.Spec.DNS.Domain == nil {
		return nil
	}
	defaults, err := p.defaultDomains(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if below(*shoot.Spec.DNS.Domain, defaults) == "" {
		markPrimary(shoot.Spec.DNS)
	}
	return nil
}

func markPrimary(dns *corev1beta1.DNS) {
	for i := range dns.Providers {
		if primary := dns.Providers[i].Primary; primary != nil && *primary {
			return
		}
	}
	yes := true
	dns.Providers[0].Primary = &yes
}

// Validate checks the domain when it is new.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots", "binding"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil || shoot.Spec.DNS == nil || shoot.Spec.DNS.Domain == nil {
		return nil
	}
	domain := *shoot.Spec.DNS.Domain
	if old, ok := a.GetOldObject().(*corev1beta1.Shoot); ok && a.GetOperation() == admission.Update &&
		old.Spec.DNS != nil && old.Spec.DNS.Domain != nil && *old.Spec.DNS.Domain == domain {
		return nil
	}
	defaults, err := p.defaultDomains(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if parent := below(domain, defaults); parent != "" {
		project, err := p.ProjectOf(ctx, shoot.Namespace)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		return hortusadmission.Refuse(a, belowDefault(shoot, domain, parent, project))
	}
	shoots := &corev1beta1.ShootList{}
	if err := p.Live.List(ctx, shoots); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("list Shoots: %w", err))
	}
	return hortusadmission.Forbid(a, taken(shoot, domain, shoots.Items))
}

// defaultDomains are those of all Seeds, since a Shoot may move.
func (p *plugin) defaultDomains(ctx context.Context) ([]string, error) {
	seeds := &corev1beta1.SeedList{}
	if err := p.Cached.List(ctx, seeds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Seeds: %w", err)
	}
	var domains []string
	for i := range seeds.Items {
		for _, domain := range seeds.Items[i].Spec.DNS.Defaults {
			domains = append(domains, domain.Domain)
		}
	}
	return domains, nil
}

// below returns the domain out of a list that a domain lies below.
func below(domain string, parents []string) string {
	for _, parent := range parents {
		if strings.HasSuffix(domain, "."+parent) {
			return parent
		}
	}
	return ""
}

// belowDefault checks that a domain below a default domain is the one that belongs to the Shoot.
func belowDefault(shoot *corev1beta1.Shoot, domain, parent string, project *corev1beta1.Project) field.ErrorList {
	var errs field.ErrorList
	for i, provider := range shoot.Spec.DNS.Providers {
		if provider.Primary != nil && *provider.Primary {
			errs = append(errs, field.Invalid(field.NewPath("spec", "dns", "providers").Index(i).Child("primary"), true,
				fmt.Sprintf("the landscape manages the records below %s", parent)))
		}
	}
	if project == nil {
		return errs
	}
	suffix := "." + project.Name + "." + parent
	if shoot.Name == "" { // The server generates the name after admission.
		if rest, ok := strings.CutSuffix(domain, suffix); ok && !strings.Contains(rest, ".") {
			return errs
		}
	}
	if domain != shoot.Name+suffix {
		errs = append(errs, field.Invalid(domainPath, domain, fmt.Sprintf("below %s only %s%s may be used", parent, shoot.Name, suffix)))
	}
	return errs
}

// taken checks that a domain neither equals nor overlaps that of another Shoot.
func taken(shoot *corev1beta1.Shoot, domain string, others []corev1beta1.Shoot) field.ErrorList {
	for i := range others {
		other := &others[i]
		if other.Namespace == shoot.Namespace && other.Name == shoot.Name || other.Spec.DNS == nil || other.Spec.DNS.Domain == nil {
			continue
		}
		switch used := *other.Spec.DNS.Domain; {
		case used == domain:
			return field.ErrorList{field.Duplicate(domainPath, domain)}
		case strings.HasSuffix(domain, "."+used), strings.HasSuffix(used, "."+domain):
			return field.ErrorList{field.Forbidden(domainPath, fmt.Sprintf("%s overlaps with the domain of another Shoot", domain))}
		}
	}
	return nil
}
