// Package shootvalidator validates Shoots against the cloud profile, the Seed, and the state of the Shoot's last
// operation.
package shootvalidator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
	"hortus.dev/hortus/internal/cloudprofile"
)

// Name of the plugin.
const Name = "ShootValidator"

const (
	// maxNamesLength bounds the length of project and Shoot name together: both are parts of names of at most 63
	// characters that have further parts.
	maxNamesLength = 21
	// generatedSuffixLength is the length of the suffix that the API server appends to generateName.
	generatedSuffixLength = 5
)

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update, admission.Delete)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate checks a request on a Shoot.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if concerns, err := p.Concerns(a, "shoots", "binding"); !concerns {
		return err
	}
	old, _ := a.GetOldObject().(*corev1beta1.Shoot)
	if a.GetOperation() == admission.Delete {
		if old != nil {
			return forbid(a, deletionProblem(old))
		}
		return nil
	}
	shoot, ok := a.GetObject().(*corev1beta1.Shoot)
	if !ok {
		return apierrors.NewBadRequest("the object is no Shoot")
	}
	if a.GetOperation() == admission.Create {
		old = nil
	}
	if old != nil && equality.Semantic.DeepEqual(shoot.Spec, old.Spec) &&
		equality.Semantic.DeepEqual(shoot.ObjectMeta, old.ObjectMeta) {
		return nil
	}
	r, err := p.read(ctx, a, shoot, old)
	if err != nil {
		return hortusadmission.InternalError(err)
	}
	invalid, problem := r.decide()
	if len(invalid) > 0 {
		return hortusadmission.Refuse(a, invalid)
	}
	if problem == nil && old == nil && r.project == nil { // The project may be created later.
		warning.AddWarning(ctx, "",
			fmt.Sprintf("metadata.namespace: %q belongs to no Project; nothing is done for the Shoot until spec.namespace of one names it", shoot.Namespace))
	}
	return forbid(a, problem)
}

// decide returns the errors that make a request invalid, or the first reason to forbid it, in the order documented in
// docs/controllers.
func (r *request) decide() (invalid field.ErrorList, forbidden error) {
	if errs := r.names(); len(errs) > 0 {
		return errs, nil
	}
	for _, problem := range []func() error{
		r.selectorProblem, r.projectProblem, r.bindingProblem, r.sourceIsDeadProblem, r.seedProblem, r.operationProblem,
		r.hibernationProblem,
		r.issuerProblem, r.credentialsProblem, r.restoreProblem,
	} {
		if err := problem(); err != nil {
			return nil, err
		}
	}
	if r.shoot.DeletionTimestamp != nil {
		return nil, nil
	}
	if errs := r.collect(); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return nil, nil
}

func forbid(a admission.Attributes, problem error) error {
	if problem == nil {
		return nil
	}
	return admission.NewForbidden(a, problem)
}

// request holds everything that a decision depends on. Its methods are pure.
type request struct {
	shoot, old *corev1beta1.Shoot // old is nil on creation.
	binding    bool               // The request is for the subresource binding.
	mayBind    bool               // The caller may use the subresource binding.

	project         *corev1beta1.Project
	profile         *hortusadmission.Profile // Nil without a reference.
	oldProfile      *hortusadmission.Profile // Nil unless the reference changes.
	seed, oldSeed   *corev1beta1.Seed        // Nil without a Seed; oldSeed nil unless it changes.
	bindingProvider string                   // Provider type of the credentials; empty if there is none.
	credentials     *credentialsChange
	issuers         bool                // The landscape manages issuers.
	shootsOnSeed    int                 // Other Shoots on the Seed, if the Shoot is being scheduled there.
	neighbours      []corev1beta1.Shoot // Shoots whose domains overlap with a new domain.
	versionErrors   field.ErrorList
	notRestorable   string // Why the requested point cannot be restored; empty if it can.
}

func (p *plugin) read(ctx context.Context, a admission.Attributes, shoot, old *corev1beta1.Shoot) (*request, error) {
	r := &request{shoot: shoot, old: old, binding: a.GetSubresource() == "binding"}
	var err error
	if r.project, err = p.ProjectOf(ctx, shoot.Namespace); err != nil {
		return nil, err
	}
	if ref := shoot.Spec.CloudProfile; ref != nil && ref.Name != "" && shoot.DeletionTimestamp == nil {
		if r.profile, err = p.Profile(ctx, shoot.Namespace, *ref); err != nil {
			return nil, err
		}
		r.versionErrors = cloudprofile.ValidateShootVersions(shoot, old, r.profile.Versions, p.Clock.Now())
		if old != nil && old.Spec.CloudProfile != nil && *old.Spec.CloudProfile != *ref {
			if r.oldProfile, err = p.Profile(ctx, shoot.Namespace, *old.Spec.CloudProfile); err != nil {
				return nil, err
			}
		}
	}
	if r.seed, err = p.seed(ctx, shoot.Spec.SeedName); err != nil {
		return nil, err
	}
	if old != nil && ptr.Deref(old.Spec.SeedName, "") != ptr.Deref(shoot.Spec.SeedName, "") {
		if r.oldSeed, err = p.seed(ctx, old.Spec.SeedName); err != nil {
			return nil, err
		}
	}
	if r.seed != nil && (old == nil || ptr.Deref(old.Spec.SeedName, "") != r.seed.Name) {
		others, err := p.ShootsOnSeed(ctx, r.seed.Name)
		if err != nil {
			return nil, err
		}
		r.shootsOnSeed = shootsBesides(shoot, others)
	}
	if domain := newDomain(shoot, old); domain != "" {
		if r.neighbours, err = p.ShootsAround(ctx, domain); err != nil {
			return nil, err
		}
	}
	if r.bindingProvider, err = p.providerOfBinding(ctx, shoot); err != nil {
		return nil, err
	}
	if old != nil {
		if r.credentials, err = p.readCredentialsChange(ctx, a, shoot, old); err != nil {
			return nil, err
		}
	}
	if r.notRestorable, err = p.notRestorable(ctx, shoot, old); err != nil {
		return nil, err
	}
	if managedIssuer(shoot) && !managedIssuer(old) {
		if r.issuers, err = p.issuersConfigured(ctx); err != nil {
			return nil, err
		}
	}
	if old == nil && shoot.Spec.SeedName != nil {
		r.mayBind, err = p.May(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: "update", APIGroup: corev1beta1.GroupName,
			APIVersion: corev1beta1.SchemeGroupVersion.Version, Resource: "shoots", Subresource: "binding",
			Namespace: shoot.Namespace, Name: shoot.Name, ResourceRequest: true,
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// seed reads a Seed. A missing Seed is rejected by the plugin resourcereference.
func (p *plugin) seed(ctx context.Context, name *string) (*corev1beta1.Seed, error) {
	if ptr.Deref(name, "") == "" {
		return nil, nil
	}
	seed := &corev1beta1.Seed{}
	if err := p.Get(ctx, "", *name, seed); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read Seed %q: %w", *name, err)
	}
	return seed, nil
}

// providerOfBinding returns the provider types of the Shoot's credentials. A missing binding is rejected by the plugin
// resourcereference.
func (p *plugin) providerOfBinding(ctx context.Context, shoot *corev1beta1.Shoot) (string, error) {
	if name := ptr.Deref(shoot.Spec.CredentialsBindingName, ""); name != "" {
		binding := &securityv1alpha1.CredentialsBinding{}
		if err := p.Get(ctx, shoot.Namespace, name, binding); err != nil {
			return "", missingOr(err, "CredentialsBinding", name)
		}
		return binding.Provider.Type, nil
	}
	if name := ptr.Deref(shoot.Spec.SecretBindingName, ""); name != "" {
		binding := &corev1beta1.SecretBinding{}
		if err := p.Get(ctx, shoot.Namespace, name, binding); err != nil {
			return "", missingOr(err, "SecretBinding", name)
		}
		if binding.Provider != nil {
			return binding.Provider.Type, nil
		}
	}
	return "", nil
}

// missingOr ignores that an object is missing.
func missingOr(err error, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("read %s %q: %w", kind, name, err)
}

// names checks that names composed of project and Shoot name stay short enough.
func (r *request) names() field.ErrorList {
	if r.old != nil || r.project == nil {
		return nil
	}
	name, length := r.shoot.Name, len(r.shoot.Name)
	if name == "" {
		name, length = r.shoot.GenerateName, len(r.shoot.GenerateName)+generatedSuffixLength
	}
	if length += len(r.project.Name); length > maxNamesLength {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name,
			fmt.Sprintf("name and project name %q have %d characters together, at most %d are allowed", r.project.Name, length,
				maxNamesLength))}
	}
	return nil
}

func (r *request) projectProblem() error {
	if r.old == nil && r.project != nil && r.project.DeletionTimestamp != nil {
		return fmt.Errorf("metadata.namespace: project %q is being deleted", r.project.Name)
	}
	return nil
}

// hibernationProblem rejects hibernating a cluster that might not wake up again.
func (r *request) hibernationProblem() error {
	if r.old == nil || r.old.HibernationEnabled() || !r.shoot.HibernationEnabled() {
		return nil
	}
	for _, constraint := range r.old.Status.Constraints {
		if constraint.Type == corev1beta1.ShootHibernationPossible && constraint.Status != corev1beta1.ConditionTrue {
			return fmt.Errorf("spec.hibernation.enabled: constraint %s is %s: %s", constraint.Type, constraint.Status,
				constraint.Message)
		}
	}
	return nil
}

// deletionProblem returns the reason why a Shoot cannot be deleted now. A Shoot whose Seed is gone can be deleted: its
// new Seed restores it first.
func deletionProblem(shoot *corev1beta1.Shoot) error {
	if _, gone := shoot.Annotations[corev1beta1.AnnotationSourceIsDead]; !gone && migrating(shoot.Status.LastOperation) {
		return errors.New("the control plane is being moved to another Seed; delete the Shoot afterwards")
	}
	return nil
}

// migrating reports whether the control plane is between two Seeds.
func migrating(op *corev1beta1.LastOperation) bool {
	if op == nil {
		return false
	}
	return op.Type == corev1beta1.LastOperationTypeMigrate ||
		op.Type == corev1beta1.LastOperationTypeRestore && op.State != corev1beta1.LastOperationStateSucceeded
}
