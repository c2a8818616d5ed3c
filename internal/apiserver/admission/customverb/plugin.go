// Package customverb demands a verb of its own for changes that not everybody may make who may update the object.
package customverb

import (
	"context"
	"fmt"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	hortusadmission "hortus.dev/hortus/internal/apiserver/admission"
)

// Name of the plugin.
const Name = "CustomVerbAuthorizer"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{hortusadmission.NewBase(admission.Create, admission.Update)}, nil
}

type plugin struct{ hortusadmission.Base }

// Validate asks for the verbs that a change needs.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	var verbs []string
	switch object := a.GetObject().(type) {
	case *corev1beta1.Project:
		old, _ := a.GetOldObject().(*corev1beta1.Project)
		if a.GetOperation() == admission.Create || old == nil {
			old = &corev1beta1.Project{}
		}
		if object.DeletionTimestamp == nil {
			verbs = ofProject(object, old, a.GetUserInfo())
		}
	case *corev1beta1.Shoot:
		old, _ := a.GetOldObject().(*corev1beta1.Shoot)
		if a.GetOperation() == admission.Create || old == nil {
			old = &corev1beta1.Shoot{}
		}
		if object.DeletionTimestamp == nil && !equality.Semantic.DeepEqual(controlPlanePools(object), controlPlanePools(old)) {
			verbs = []string{corev1beta1.VerbMarkSelfHosted}
		}
	case *corev1beta1.NamespacedCloudProfile:
		old, _ := a.GetOldObject().(*corev1beta1.NamespacedCloudProfile)
		if a.GetOperation() == admission.Create || old == nil {
			old = &corev1beta1.NamespacedCloudProfile{}
		}
		if object.DeletionTimestamp == nil {
			verbs = ofProfile(object, old)
		}
	}
	for _, verb := range verbs {
		decision, _, err := p.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: verb, APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version,
			Resource: a.GetResource().Resource, Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
		})
		if err != nil {
			return admission.NewForbidden(a, fmt.Errorf("authorize verb %q: %w", verb, err))
		}
		if decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a, fmt.Errorf("user %q needs the verb %q on %s for this change", a.GetUserInfo().GetName(), verb, a.GetResource().Resource))
		}
	}
	return nil
}

// controlPlanePools returns the pools that are to run the Shoot's own control plane, by name.
func controlPlanePools(shoot *corev1beta1.Shoot) map[string]*corev1beta1.WorkerControlPlane {
	pools := map[string]*corev1beta1.WorkerControlPlane{}
	for i := range shoot.Spec.Provider.Workers {
		if pool := &shoot.Spec.Provider.Workers[i]; pool.ControlPlane != nil {
			pools[pool.Name] = pool.ControlPlane
		}
	}
	return pools
}

func ofProfile(profile, old *corev1beta1.NamespacedCloudProfile) []string {
	var verbs []string
	if !equality.Semantic.DeepEqual(profile.Spec.Kubernetes, old.Spec.Kubernetes) {
		verbs = append(verbs, corev1beta1.VerbModifyKubernetes)
	}
	if !equality.Semantic.DeepEqual(profile.Spec.MachineImages, old.Spec.MachineImages) {
		verbs = append(verbs, corev1beta1.VerbModifyMachineImages)
	}
	if !equality.Semantic.DeepEqual(profile.Spec.ProviderConfig, old.Spec.ProviderConfig) {
		verbs = append(verbs, corev1beta1.VerbModifyProviderConfig)
	}
	return verbs
}

// ofProject returns the verb for the first kind of change that needs one.
func ofProject(project, old *corev1beta1.Project, caller user.Info) []string {
	if !equality.Semantic.DeepEqual(whitelist(project), whitelist(old)) {
		return []string{corev1beta1.VerbModifyTolerationsWhitelist}
	}
	if membersChanged(project, old) && !isCaller(project.Spec.Owner, caller) {
		return []string{corev1beta1.VerbManageMembers}
	}
	if old.Spec.Owner != nil && !equality.Semantic.DeepEqual(project.Spec.Owner, old.Spec.Owner) && !isCaller(old.Spec.Owner, caller) {
		return []string{corev1beta1.VerbManageMembers}
	}
	return nil
}

// whitelist leaves out what defaulting adds to the project of the namespace garden.
func whitelist(project *corev1beta1.Project) []corev1beta1.Toleration {
	if project.Spec.Tolerations == nil {
		return nil
	}
	list := project.Spec.Tolerations.Whitelist
	if project.Spec.Namespace != nil && *project.Spec.Namespace == corev1beta1.GardenNamespace {
		list = slices.DeleteFunc(slices.Clone(list), func(t corev1beta1.Toleration) bool {
			return t.Key == corev1beta1.SeedTaintProtected && t.Value == nil
		})
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

// membersChanged compares the members that are people, except the owner, who may always be a member.
func membersChanged(project, old *corev1beta1.Project) bool {
	people := func(p *corev1beta1.Project) map[rbacv1.Subject][]string {
		members := map[rbacv1.Subject][]string{}
		for _, member := range p.Spec.Members {
			_, _, notAccount := serviceaccount.SplitUsername(member.Name)
			if member.Kind == rbacv1.ServiceAccountKind || notAccount == nil ||
				project.Spec.Owner != nil && member.Subject == *project.Spec.Owner {
				continue
			}
			roles := append([]string{member.Role}, member.Roles...)
			slices.Sort(roles)
			members[member.Subject] = roles
		}
		return members
	}
	return !equality.Semantic.DeepEqual(people(project), people(old))
}

// isCaller says whether a subject is the one who makes the request.
func isCaller(subject *rbacv1.Subject, caller user.Info) bool {
	if subject == nil {
		return false
	}
	switch subject.Kind {
	case rbacv1.UserKind:
		return subject.Name == caller.GetName()
	case rbacv1.GroupKind:
		return slices.Contains(caller.GetGroups(), subject.Name)
	case rbacv1.ServiceAccountKind:
		return serviceaccount.MatchesUsername(subject.Namespace, subject.Name, caller.GetName())
	}
	return false
}
