// Package customverb requires a permission in addition to update (a custom verb) for some changes.
package customverb

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// Validate checks that the caller has the verbs that a change needs.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	resource := a.GetResource()
	var errs field.ErrorList
	for _, change := range changesOf(a) {
		allowed, err := p.May(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: change.verb, APIGroup: resource.Group, APIVersion: resource.Version,
			Resource: resource.Resource, Namespace: a.GetNamespace(), Name: a.GetName(), ResourceRequest: true,
		})
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if !allowed {
			errs = append(errs, change.refusal(a))
		}
	}
	return hortusadmission.Forbid(a, errs)
}

// change is a change that needs a custom verb.
type change struct {
	verb  string
	path  *field.Path
	to    string          // The change, for messages: a verb and its object.
	owner *rbacv1.Subject // The user who is exempt; nil if there is none.
}

// refusal names the permission that the change needs.
func (c change) refusal(a admission.Attributes) *field.Error {
	on := a.GetResource().GroupResource().String()
	if a.GetName() != "" {
		on += "/" + a.GetName()
	}
	if a.GetNamespace() != "" {
		on += " of namespace " + a.GetNamespace()
	}
	text := fmt.Sprintf("user %q needs the verb %q on %s to %s", a.GetUserInfo().GetName(), c.verb, on, c.to)
	if c.owner != nil {
		text += fmt.Sprintf("; only the owner, %s, is exempt", show(*c.owner))
	}
	return field.Forbidden(c.path, text)
}

// changesOf returns the changes of a request that need custom verbs.
func changesOf(a admission.Attributes) []change {
	switch object := a.GetObject().(type) {
	case *corev1beta1.Project:
		if old := before(a, &corev1beta1.Project{}); object.DeletionTimestamp == nil {
			return ofProject(object, old, a.GetUserInfo())
		}
	case *corev1beta1.Shoot:
		if old := before(a, &corev1beta1.Shoot{}); object.DeletionTimestamp == nil {
			return ofShoot(object, old)
		}
	case *corev1beta1.NamespacedCloudProfile:
		if old := before(a, &corev1beta1.NamespacedCloudProfile{}); object.DeletionTimestamp == nil {
			return ofProfile(object, old)
		}
	}
	return nil
}

// before returns the stored object, or an empty object on creation.
func before[T runtime.Object](a admission.Attributes, empty T) T {
	if old, ok := a.GetOldObject().(T); ok && a.GetOperation() != admission.Create {
		return old
	}
	return empty
}

var specPath = field.NewPath("spec")

// ofShoot returns the changes to pools that run the Shoot's own control plane.
func ofShoot(shoot, old *corev1beta1.Shoot) []change {
	hosting, path := controlPlanePools(old), specPath.Child("provider", "workers")
	var changes []change
	add := func(path *field.Path, to, pool string) {
		changes = append(changes, change{
			verb: corev1beta1.VerbMarkSelfHosted, path: path, to: fmt.Sprintf("%s pool %q", to, pool),
		})
	}
	for i := range shoot.Spec.Provider.Workers {
		pool := &shoot.Spec.Provider.Workers[i]
		if !equality.Semantic.DeepEqual(pool.ControlPlane, hosting[pool.Name]) {
			add(path.Index(i).Child("controlPlane"), "change it of", pool.Name)
		}
		delete(hosting, pool.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(hosting)) {
		add(path, "remove the control plane's", name)
	}
	return changes
}

func controlPlanePools(shoot *corev1beta1.Shoot) map[string]*corev1beta1.WorkerControlPlane {
	pools := map[string]*corev1beta1.WorkerControlPlane{}
	for i := range shoot.Spec.Provider.Workers {
		if pool := &shoot.Spec.Provider.Workers[i]; pool.ControlPlane != nil {
			pools[pool.Name] = pool.ControlPlane
		}
	}
	return pools
}

func ofProfile(profile, old *corev1beta1.NamespacedCloudProfile) []change {
	versions := func(p *corev1beta1.NamespacedCloudProfile) []corev1beta1.ExpirableVersion {
		if p.Spec.Kubernetes == nil {
			return nil
		}
		return p.Spec.Kubernetes.Versions
	}
	var changes []change
	if !equality.Semantic.DeepEqual(profile.Spec.Kubernetes, old.Spec.Kubernetes) {
		to := changing(versions(profile), versions(old), func(v corev1beta1.ExpirableVersion) string { return v.Version })
		changes = append(changes, change{verb: corev1beta1.VerbModifyKubernetes, path: specPath.Child("kubernetes"), to: to})
	}
	if !equality.Semantic.DeepEqual(profile.Spec.MachineImages, old.Spec.MachineImages) {
		to := changing(profile.Spec.MachineImages, old.Spec.MachineImages,
			func(i corev1beta1.MachineImage) string { return i.Name })
		changes = append(changes, change{
			verb: corev1beta1.VerbModifyMachineImages, path: specPath.Child("machineImages"), to: to,
		})
	}
	if !equality.Semantic.DeepEqual(profile.Spec.ProviderConfig, old.Spec.ProviderConfig) {
		changes = append(changes, change{
			verb: corev1beta1.VerbModifyProviderConfig, path: specPath.Child("providerConfig"), to: "change it",
		})
	}
	return changes
}

// changing names the elements that differ between two lists, at most 10.
func changing[T any](now, old []T, name func(T) string) string {
	before := make(map[string]T, len(old))
	for _, element := range old {
		before[name(element)] = element
	}
	var names []string
	for _, element := range now {
		was, there := before[name(element)]
		if !there || !equality.Semantic.DeepEqual(element, was) {
			names = append(names, name(element))
		}
		delete(before, name(element))
	}
	names = slices.AppendSeq(names, maps.Keys(before))
	if len(names) == 0 {
		return "change it" // Only the order differs, for instance.
	}
	return "change " + hortusadmission.Named(names)
}

// ofProject returns the first kind of change that needs a custom verb.
func ofProject(project, old *corev1beta1.Project, caller user.Info) []change {
	if now, before := whitelist(project), whitelist(old); !equality.Semantic.DeepEqual(now, before) {
		return []change{{
			verb: corev1beta1.VerbModifyTolerationsWhitelist, path: specPath.Child("tolerations", "whitelist"),
			to: changing(now, before, id),
		}}
	}
	if now, before := people(project), people(old); !equality.Semantic.DeepEqual(now, before) &&
		!isCaller(project.Spec.Owner, caller) {
		to := changing(slices.Collect(maps.Values(now)), slices.Collect(maps.Values(before)),
			func(m corev1beta1.ProjectMember) string { return show(m.Subject) })
		members := change{verb: corev1beta1.VerbManageMembers, path: specPath.Child("members"), to: to}
		if equality.Semantic.DeepEqual(project.Spec.Owner, old.Spec.Owner) {
			members.owner = project.Spec.Owner
		}
		return []change{members}
	}
	if old.Spec.Owner != nil && !equality.Semantic.DeepEqual(project.Spec.Owner, old.Spec.Owner) &&
		!isCaller(old.Spec.Owner, caller) {
		to := "remove it"
		if project.Spec.Owner != nil {
			to = "change it to " + show(*project.Spec.Owner)
		}
		return []change{{verb: corev1beta1.VerbManageMembers, path: specPath.Child("owner"), to: to, owner: old.Spec.Owner}}
	}
	return nil
}

// show names a subject for messages.
func show(subject rbacv1.Subject) string {
	name := subject.Name
	if subject.Namespace != "" {
		name = subject.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", subject.Kind, name)
}

func id(t corev1beta1.Toleration) string {
	if t.Value == nil {
		return t.Key
	}
	return t.Key + "=" + *t.Value
}

// whitelist returns the project's whitelist without the entry that defaulting adds in the namespace garden.
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

// people returns the members other than service accounts and the owner, with their roles sorted. The owner may always
// be a member.
func people(p *corev1beta1.Project) map[rbacv1.Subject]corev1beta1.ProjectMember {
	members := map[rbacv1.Subject]corev1beta1.ProjectMember{}
	for _, member := range p.Spec.Members {
		_, _, notAccount := serviceaccount.SplitUsername(member.Name)
		if member.Kind == rbacv1.ServiceAccountKind || notAccount == nil ||
			p.Spec.Owner != nil && member.Subject == *p.Spec.Owner {
			continue
		}
		roles := append([]string{member.Role}, member.Roles...)
		slices.Sort(roles)
		members[member.Subject] = corev1beta1.ProjectMember{Subject: member.Subject, Roles: roles}
	}
	return members
}

// isCaller reports whether a subject is the caller.
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
