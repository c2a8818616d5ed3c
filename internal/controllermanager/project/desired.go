package project

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

const (
	labelRole              = "gardener.cloud/role"
	labelProjectName       = "project.gardener.cloud/name"
	annotationProject      = "namespace.gardener.cloud/project"
	annotationCreatedByUs  = "namespace.gardener.cloud/created-by-project-controller"
	annotationKeepAfter    = "namespace.gardener.cloud/keep-after-project-deletion"
	roleProject            = "project"
	roleMember             = "gardener.cloud:system:project-member"
	roleViewer             = "gardener.cloud:system:project-viewer"
	roleServiceAccounts    = "gardener.cloud:system:project-serviceaccountmanager"
	roleUserAccessManager  = "gardener.cloud:system:project-uam"
	roleOwnerPrefix        = "gardener.cloud:system:project:"
	roleExtensionPrefix    = "gardener.cloud:extension:project:"
	labelAggregateExtRole  = "rbac.gardener.cloud/aggregate-to-extension-role"
	namespaceHashHexDigits = 5
)

// stays reports whether a namespace is released instead of deleted with its Project.
func stays(ns *corev1.Namespace) bool {
	keep, err := strconv.ParseBool(ns.Annotations[annotationKeepAfter])
	return err == nil && keep
}

// namespaceName returns the name of the project's namespace: the one in the spec, or else one derived from the
// project's UID, so that a project that is created again does not inherit leftovers of its predecessor.
func namespaceName(p *corev1beta1.Project) string {
	if p.Spec.Namespace != nil {
		return *p.Spec.Namespace
	}
	sum := sha256.Sum256([]byte(p.UID))
	return "garden-" + p.Name + "-" + hex.EncodeToString(sum[:])[:namespaceHashHexDigits]
}

// desiredNamespace returns the project's namespace.
func desiredNamespace(p *corev1beta1.Project) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        namespaceName(p),
		Labels:      map[string]string{labelRole: roleProject, labelProjectName: p.Name},
		Annotations: map[string]string{annotationProject: string(p.UID)},
	}}
}

// adoptable returns the reason why an existing namespace cannot become the project's, "" if it can.
func adoptable(p *corev1beta1.Project, ns *corev1.Namespace) string {
	if owner := ns.Annotations[annotationProject]; owner != "" && owner != string(p.UID) {
		return "it belongs to another project"
	}
	if ns.Annotations[annotationProject] == string(p.UID) || ns.Labels[labelProjectName] == p.Name &&
		ns.Labels[labelRole] == roleProject {
		return ""
	}
	return "it exists and is not labelled " + labelRole + "=" + roleProject + " and " + labelProjectName + "=" + p.Name
}

// membersWith returns the distinct subjects with one of the roles, in the order of the spec.
func membersWith(p *corev1beta1.Project, roles ...string) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for _, m := range p.Spec.Members {
		has := slices.ContainsFunc(roles, func(r string) bool { return m.Role == r || slices.Contains(m.Roles, r) })
		if has && !slices.Contains(subjects, m.Subject) {
			subjects = append(subjects, m.Subject)
		}
	}
	return subjects
}

// extensionRoles returns the extension roles of the members, sorted, without their prefix.
func extensionRoles(p *corev1beta1.Project) []string {
	var roles []string
	for _, m := range p.Spec.Members {
		for _, r := range append([]string{m.Role}, m.Roles...) {
			if name, is := strings.CutPrefix(r, corev1beta1.ProjectMemberExtensionPrefix); is && !slices.Contains(roles, name) {
				roles = append(roles, name)
			}
		}
	}
	slices.Sort(roles)
	return roles
}

// desiredAccess returns all roles and bindings of a project. Bindings without subjects are kept, so that a member who
// loses a role also loses the access.
func desiredAccess(p *corev1beta1.Project) []client.Object {
	namespace := namespaceName(p)
	members := membersWith(p, corev1beta1.ProjectMemberAdmin, corev1beta1.ProjectMemberOwner)
	viewers := membersWith(p, corev1beta1.ProjectMemberViewer)
	managers := membersWith(p, corev1beta1.ProjectMemberUserAccessManager)
	owner := roleOwnerPrefix + p.Name

	objects := []client.Object{
		roleBinding(namespace, roleMember, roleMember, members),
		roleBinding(namespace, roleViewer, roleViewer, viewers),
		roleBinding(namespace, roleServiceAccounts, roleServiceAccounts,
			membersWith(p, corev1beta1.ProjectMemberServiceAccountManager)),
		projectRole(p, owner, "get", "patch", "update", "delete", "manage-members"),
		projectRole(p, roleMember+":"+p.Name, "get", "patch", "update", "delete"),
		projectRole(p, roleViewer+":"+p.Name, "get"),
		projectRole(p, roleUserAccessManager+":"+p.Name, "get", "patch", "update", "manage-members"),
		clusterRoleBinding(p, owner, membersWith(p, corev1beta1.ProjectMemberOwner)),
		clusterRoleBinding(p, roleMember+":"+p.Name, members),
		clusterRoleBinding(p, roleViewer+":"+p.Name, viewers),
		clusterRoleBinding(p, roleUserAccessManager+":"+p.Name, managers),
	}
	for _, role := range extensionRoles(p) {
		name := roleExtensionPrefix + p.Name + ":" + role
		objects = append(objects,
			&rbacv1.ClusterRole{
				ObjectMeta: owned(p, name),
				AggregationRule: &rbacv1.AggregationRule{
					ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{labelAggregateExtRole: role}}},
				},
			},
			roleBinding(namespace, name, name, membersWith(p, corev1beta1.ProjectMemberExtensionPrefix+role)))
	}
	return objects
}

func owned(p *corev1beta1.Project, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(p, corev1beta1.SchemeGroupVersion.WithKind("Project"))}}
}

func projectRole(p *corev1beta1.Project, name string, verbs ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: owned(p, name), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{corev1beta1.GroupName}, Resources: []string{"projects"}, ResourceNames: []string{p.Name},
			Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{namespaceName(p)},
			Verbs: []string{"get"}},
	}}
}

func clusterRoleBinding(p *corev1beta1.Project, name string, subjects []rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: owned(p, name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

func roleBinding(namespace, name, clusterRole string, subjects []rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{labelRole: roleProject}},
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
	}
}
