// Package tolerationrestriction adds default tolerations to Shoots and rejects tolerations that the project may not
// use.
package tolerationrestriction

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "ShootTolerationRestriction"

const configurationVersion = "shoottolerationrestriction.admission.gardener.cloud/v1alpha1"

// Configuration applies to all projects.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// defaults are added to every new Shoot that has no toleration with the same key.
	Defaults []corev1beta1.Toleration `json:"defaults,omitempty"`
	// whitelist lists the tolerations that every Shoot may have.
	Whitelist []corev1beta1.Toleration `json:"whitelist,omitempty"`
}

// New returns the plugin.
func New(reader io.Reader) (admission.Interface, error) {
	p := &plugin{Base: hortusadmission.NewBase(admission.Create, admission.Update)}
	if err := hortusadmission.ReadConfiguration(reader, Name, configurationVersion, &p.config); err != nil {
		return nil, err
	}
	// Defaults that are not in the whitelist would make every creation of a Shoot fail.
	rules := &corev1beta1.ProjectTolerations{Defaults: p.config.Defaults, Whitelist: p.config.Whitelist}
	if err := corev1beta1.ValidateProjectTolerations(rules, nil).ToAggregate(); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	return p, nil
}

type plugin struct {
	hortusadmission.Base
	config Configuration
}

// Admit adds default tolerations to a new Shoot.
func (p *plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots"); !concerns || a.GetOperation() != admission.Create {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok {
		return nil
	}
	project, err := p.ProjectOf(ctx, a.GetNamespace())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	shoot.Spec.Tolerations = corev1beta1.TolerationsWithDefaults(shoot.Spec.Tolerations, p.config.Defaults,
		ofProject(project).Defaults)
	return nil
}

// Validate checks new tolerations.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots"); !concerns {
		return err
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok || shoot.DeletionTimestamp != nil {
		return nil
	}
	var before []corev1beta1.Toleration
	if old, ok := a.GetOldObject().(*corev1beta1.Shoot); ok && a.GetOperation() == admission.Update {
		before = old.Spec.Tolerations
	}
	if len(added(shoot.Spec.Tolerations, before)) == 0 {
		return nil
	}
	project, err := p.ProjectOf(ctx, shoot.Namespace)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	return hortusadmission.Forbid(a,
		refused(shoot.Spec.Tolerations, before, p.config.Whitelist, ofProject(project).Whitelist))
}

func ofProject(project *corev1beta1.Project) corev1beta1.ProjectTolerations {
	if project == nil || project.Spec.Tolerations == nil {
		return corev1beta1.ProjectTolerations{}
	}
	return *project.Spec.Tolerations
}

func id(t corev1beta1.Toleration) string {
	if t.Value == nil {
		return t.Key
	}
	return t.Key + "=" + *t.Value
}

// added returns the indexes of new tolerations.
func added(tolerations, before []corev1beta1.Toleration) []int {
	var indexes []int
	for i, toleration := range tolerations {
		if !slices.ContainsFunc(before, func(t corev1beta1.Toleration) bool { return id(t) == id(toleration) }) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// refused returns an error for each new toleration that is in no whitelist, as a key alone or with its value.
func refused(tolerations, before []corev1beta1.Toleration, whitelists ...[]corev1beta1.Toleration) field.ErrorList {
	var allowed []string
	for _, toleration := range slices.Concat(whitelists...) {
		allowed = append(allowed, id(toleration))
	}
	slices.Sort(allowed)
	allowed = slices.Compact(allowed)
	accepted := "only the following tolerations are allowed: [" + strings.Join(allowed, ", ") + "]"
	if len(allowed) == 0 {
		accepted = "neither the landscape nor the project allows any tolerations; leave it out"
	}
	var errs field.ErrorList
	for _, i := range added(tolerations, before) {
		if !slices.Contains(allowed, tolerations[i].Key) && !slices.Contains(allowed, id(tolerations[i])) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "tolerations").Index(i),
				fmt.Sprintf("%s: %s", id(tolerations[i]), accepted)))
		}
	}
	return errs
}
