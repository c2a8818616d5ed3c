// Package seedvalidator rejects removing settings from Seeds that their Shoots use, and deleting Seeds that have
// Shoots.
package seedvalidator

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

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/apiserver/admission/backupbucketvalidator"
)

// Name of the plugin.
const Name = "SeedValidator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks the settings that an update removes, that a Seed in deletion has no Shoots, and the credentials for
// backups.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "seeds"); !concerns {
		return err
	}
	old, isOld := a.GetOldObject().(*corev1beta1.Seed)
	if a.GetOperation() == admission.Delete {
		if !isOld {
			return nil
		}
		return p.deletion(ctx, a, old.Name)
	}
	seed, ok := a.GetObject().(*corev1beta1.Seed)
	if !ok {
		return nil
	}
	if a.GetOperation() == admission.Create || !isOld {
		return p.backup(ctx, a, seed, nil)
	}
	if err := p.backup(ctx, a, seed, old); err != nil {
		return err
	}
	lost := lose(&seed.Spec, &old.Spec)
	if lost.nothing() {
		return nil
	}
	shoots, err := p.ShootsOnSeed(ctx, seed.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Forbid(a, lost.usedBy(shoots, field.NewPath("spec")))
}

// deletion rejects the deletion while a control plane is on the Seed or is to move there.
func (p *plugin) deletion(ctx context.Context, a admission.Attributes, seed string) error {
	user, err := p.UserOfSeed(ctx, seed)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if user != "" {
		return admission.NewForbidden(a, fmt.Errorf("Shoot %s is on the Seed; delete or move it first", user))
	}
	return nil
}

// backup compares the WorkloadIdentity for backups with their provider.
func (p *plugin) backup(ctx context.Context, a admission.Attributes, seed, old *corev1beta1.Seed) error {
	backup := seed.Spec.Backup
	if backup == nil || backup.CredentialsRef == nil || backup.CredentialsRef.Kind != "WorkloadIdentity" ||
		seed.DeletionTimestamp != nil ||
		old != nil && old.Spec.Backup != nil &&
			equality.Semantic.DeepEqual(backup.CredentialsRef, old.Spec.Backup.CredentialsRef) {
		return nil
	}
	target, err := p.TargetOfIdentity(ctx, backup.CredentialsRef.Namespace, backup.CredentialsRef.Name)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Forbid(a,
		backupbucketvalidator.MismatchedIdentity(field.NewPath("spec", "backup", "credentialsRef"),
			backup.CredentialsRef.Namespace+"/"+backup.CredentialsRef.Name, target, backup.Provider))
}

// Lost lists the Shoots that use settings which an update removes. path is the path of the spec.
func Lost(spec, old *corev1beta1.SeedSpec, shoots []corev1beta1.Shoot, path *field.Path) field.ErrorList {
	return lose(spec, old).usedBy(shoots, path)
}

// losses are the settings that an update removes.
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
		if !slices.ContainsFunc(spec.DNS.Defaults,
			func(d corev1beta1.SeedDNSProviderConfig) bool { return d.Domain == domain.Domain }) {
			l.domains = append(l.domains, domain.Domain)
		}
	}
	return l
}

func (l losses) nothing() bool { return len(l.zones) == 0 && !l.internal && len(l.domains) == 0 }

func (l losses) usedBy(shoots []corev1beta1.Shoot, spec *field.Path) field.ErrorList {
	if len(shoots) == 0 {
		return nil
	}
	var users []string
	byDomain := map[string][]string{}
	for i := range shoots {
		name := shoots[i].Namespace + "/" + shoots[i].Name
		users = append(users, name)
		for _, domain := range l.domains {
			if dns := shoots[i].Spec.DNS; dns != nil && dns.Domain != nil && strings.HasSuffix(*dns.Domain, "."+domain) {
				byDomain[domain] = append(byDomain[domain], name)
			}
		}
	}
	var errs field.ErrorList
	if len(l.zones) > 0 {
		errs = append(errs, field.Forbidden(spec.Child("provider", "zones"),
			fmt.Sprintf("Shoots may be in the removed zones %v: %s", l.zones, hortusadmission.Named(users))))
	}
	if l.internal {
		errs = append(errs, field.Forbidden(spec.Child("dns", "internal", "domain"), "Shoots are reached through it: "+
			hortusadmission.Named(users)))
	}
	for _, domain := range l.domains {
		if len(byDomain[domain]) > 0 {
			errs = append(errs, field.Forbidden(spec.Child("dns", "defaults"),
				fmt.Sprintf("Shoots use the removed domain %s: %s", domain, hortusadmission.Named(byDomain[domain]))))
		}
	}
	return errs
}
