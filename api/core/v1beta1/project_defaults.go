package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// SetDefaultsProject fills the empty fields of a Project that have a default.
func SetDefaultsProject(project *Project) {
	spec := &project.Spec
	if spec.Owner != nil {
		setDefaultsSubject(spec.Owner)
	}
	for i := range spec.Members {
		member := &spec.Members[i]
		setDefaultsSubject(&member.Subject)
		if member.Role == "" {
			member.Role = firstRole(member.Roles)
		}
		member.Roles = withoutRole(member.Roles, member.Role)
	}
	if spec.Namespace != nil && *spec.Namespace == GardenNamespace {
		setDefault(&spec.Tolerations, ProjectTolerations{})
		protected := Toleration{Key: SeedTaintProtected}
		addToleration(&spec.Tolerations.Defaults, protected)
		addToleration(&spec.Tolerations.Whitelist, protected)
	}
}

func setDefaultsSubject(subject *rbacv1.Subject) {
	if subject.APIGroup != "" {
		return
	}
	switch subject.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		subject.APIGroup = rbacv1.GroupName
	}
}

// firstRole returns the first role with a name, or that of members without any.
func firstRole(roles []string) string {
	for _, r := range roles {
		if r != "" {
			return r
		}
	}
	return ProjectMemberViewer
}

// withoutRole prevents a role of the field role from being listed a second time.
func withoutRole(roles []string, role string) []string {
	var rest []string
	for _, r := range roles {
		if r != role {
			rest = append(rest, r)
		}
	}
	return rest
}

func addToleration(list *[]Toleration, toleration Toleration) {
	for _, t := range *list {
		if t.Key == toleration.Key {
			return
		}
	}
	*list = append(*list, toleration)
}
