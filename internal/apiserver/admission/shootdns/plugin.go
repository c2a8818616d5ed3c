// Package shootdns assigns Shoots their domain below a default domain, and checks domains, each of which belongs to one
// Shoot.
package shootdns

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
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

// Admit assigns a scheduled Shoot its domain below the Seed's default domain. It makes the first provider the primary
// one if no default domain is used.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots", "binding"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil {
		return nil
	}
	old, _ := a.GetOldObject().(*corev1beta1.Shoot)
	if a.GetOperation() == admission.Create {
		old = nil
	}
	if err := p.assignDomain(ctx, shoot); err != nil {
		return apierrors.NewInternalError(err)
	}
	if shoot.Spec.DNS == nil || len(shoot.Spec.DNS.Providers) == 0 || shoot.Spec.DNS.Domain == nil {
		return nil
	}
	seeds, err := p.seeds(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if below(*shoot.Spec.DNS.Domain, defaultDomains(seeds)) != nil {
		return nil
	}
	if old != nil && old.Spec.DNS != nil {
		restorePrimary(shoot.Spec.DNS, old.Spec.DNS)
	}
	markPrimary(shoot.Spec.DNS)
	return nil
}

// assignDomain sets the domain of a Shoot that is scheduled, has none, and does not manage its DNS records itself.
func (p *plugin) assignDomain(ctx context.Context, shoot *corev1beta1.Shoot) error {
	dns := shoot.Spec.DNS
	if shoot.Spec.SeedName == nil || shoot.Name == "" || dns != nil && (dns.Domain != nil || unmanaged(dns)) {
		return nil
	}
	seed := &corev1beta1.Seed{}
	if err := p.Get(ctx, "", *shoot.Spec.SeedName, seed); err != nil {
		return client.IgnoreNotFound(err) // Rejected by the plugin resourcereference.
	}
	if len(seed.Spec.DNS.Defaults) == 0 {
		return nil
	}
	project, err := p.ProjectOf(ctx, shoot.Namespace)
	if err != nil || project == nil {
		return err
	}
	domain := shoot.Name + "." + project.Name + "." + seed.Spec.DNS.Defaults[0].Domain
	if dns == nil {
		dns = &corev1beta1.DNS{}
	}
	dns.Domain, shoot.Spec.DNS = &domain, dns
	return nil
}

func unmanaged(dns *corev1beta1.DNS) bool {
	return slices.ContainsFunc(dns.Providers, func(p corev1beta1.DNSProvider) bool {
		return p.Type != nil && *p.Type == corev1beta1.DNSUnmanaged
	})
}

func isPrimary(provider corev1beta1.DNSProvider) bool {
	return provider.Primary != nil && *provider.Primary
}

// restorePrimary marks the previous primary provider again if an update omits the mark.
func restorePrimary(dns, old *corev1beta1.DNS) {
	before := slices.IndexFunc(old.Providers, isPrimary)
	if before < 0 || slices.ContainsFunc(dns.Providers, isPrimary) {
		return
	}
	for i := range dns.Providers {
		provider, was := &dns.Providers[i], &old.Providers[before]
		if equality.Semantic.DeepEqual(provider.Type, was.Type) &&
			equality.Semantic.DeepEqual(provider.CredentialsRef, was.CredentialsRef) {
			provider.Primary = new(true)
			return
		}
	}
}

func markPrimary(dns *corev1beta1.DNS) {
	if !slices.ContainsFunc(dns.Providers, isPrimary) {
		dns.Providers[0].Primary = new(true)
	}
}

// Validate checks a new domain.
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
		sameDomain(shoot, old) &&
		(old.Spec.SeedName != nil || shoot.Spec.SeedName == nil) {
		return nil // Checked when it was set, and when the Shoot was scheduled.
	}
	seeds, err := p.seeds(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	parents := below(domain, defaultDomains(seeds))
	if len(parents) == 0 {
		return hortusadmission.Refuse(a, outsideReserved(domain, reservedDomains(seeds)))
	}
	project, err := p.ProjectOf(ctx, shoot.Namespace)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Refuse(a, belowDefault(shoot, domain, parents, project))
}

func sameDomain(shoot, old *corev1beta1.Shoot) bool {
	return old.Spec.DNS != nil && equality.Semantic.DeepEqual(shoot.Spec.DNS.Domain, old.Spec.DNS.Domain)
}

// seeds returns all Seeds, because a control plane may move.
func (p *plugin) seeds(ctx context.Context) ([]corev1beta1.Seed, error) {
	seeds := &corev1beta1.SeedList{}
	if err := p.Cached.List(ctx, seeds, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Seeds: %w", err)
	}
	return seeds.Items, nil
}

func defaultDomains(seeds []corev1beta1.Seed) []string {
	var domains []string
	for i := range seeds {
		for _, domain := range seeds[i].Spec.DNS.Defaults {
			domains = append(domains, domain.Domain)
		}
	}
	return domains
}

// reservedDomains returns the domains that the landscape uses itself: for the endpoints of all control planes,
// including hibernated ones, and for the ingresses of Seeds.
func reservedDomains(seeds []corev1beta1.Seed) []string {
	var domains []string
	for i := range seeds {
		if internal := seeds[i].Spec.InternalDomain(); internal != "" {
			domains = append(domains, internal)
		}
		if ingress := seeds[i].Spec.Ingress; ingress != nil && ingress.Domain != "" {
			domains = append(domains, ingress.Domain)
		}
	}
	return domains
}

// outsideReserved checks that a user's domain does not overlap with a reserved one.
func outsideReserved(domain string, reserved []string) field.ErrorList {
	for _, r := range reserved {
		if overlap(domain, r) {
			return field.ErrorList{
				field.Forbidden(domainPath, fmt.Sprintf("%s overlaps with %s, which the landscape uses itself", domain, r)),
			}
		}
	}
	return nil
}

// overlap reports whether two domains are equal, or one is a subdomain of the other. Case does not matter in DNS.
func overlap(a, b string) bool {
	a, b = "."+strings.ToLower(a), "."+strings.ToLower(b)
	return strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
}

// below returns the domains of a list that a domain is a subdomain of.
func below(domain string, of []string) []string {
	var parents []string
	for _, parent := range of {
		if strings.HasSuffix(domain, "."+parent) && !slices.Contains(parents, parent) {
			parents = append(parents, parent)
		}
	}
	return parents
}

// belowDefault checks that a domain below default domains is the one that belongs to the Shoot there.
func belowDefault(
	shoot *corev1beta1.Shoot, domain string, parents []string, project *corev1beta1.Project,
) field.ErrorList {
	var errs field.ErrorList
	for i, provider := range shoot.Spec.DNS.Providers {
		if isPrimary(provider) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "dns", "providers").Index(i).Child("primary"), true,
				fmt.Sprintf("the landscape manages the records below %s", parents[0])))
		}
	}
	if project == nil {
		return errs
	}
	var allowed []string
	for _, parent := range parents {
		suffix := "." + project.Name + "." + parent
		if shoot.Name == "" { // The server generates the name after admission.
			if rest, ok := strings.CutSuffix(domain, suffix); ok && !strings.Contains(rest, ".") {
				return errs
			}
		}
		if domain == shoot.Name+suffix {
			return errs
		}
		allowed = append(allowed, shoot.Name+suffix)
	}
	return append(errs, field.Invalid(domainPath, domain,
		fmt.Sprintf("below %s only %s may be used", strings.Join(parents, " and "), strings.Join(allowed, " or "))))
}
