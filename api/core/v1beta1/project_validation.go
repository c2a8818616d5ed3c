package v1beta1

import (
	"slices"
	"strings"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxProjectNameLength leaves room in the names that are made from project and Shoot.
	maxProjectNameLength = 10
	// maxExtensionRoleLength leaves room in the names of ClusterRoles.
	maxExtensionRoleLength = 20
	// serviceAccountUserPrefix is followed by namespace and name in the user name of a service account.
	serviceAccountUserPrefix = "system:serviceaccount:"
)

// reservedNamespaces belong to the landscape.
var reservedNamespaces = []string{SeedLeaseNamespace, ShootIssuerNamespace, PublicNamespace}

// ValidateProject checks a new Project.
func ValidateProject(project *Project) field.ErrorList { return validateProject(project, &Project{}) }

// ValidateProjectUpdate checks a changed Project.
func ValidateProjectUpdate(project, old *Project) field.ErrorList {
	errs := validateMetaUpdate(&project.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validateProject(project, old)...)
	errs = append(errs, validateImmutableOnceSet(project.Spec.CreatedBy, old.Spec.CreatedBy,
		specPath.Child("createdBy"))...)
	errs = append(errs, validateImmutableOnceSet(project.Spec.Namespace, old.Spec.Namespace,
		specPath.Child("namespace"))...)
	if old.Spec.Owner != nil && project.Spec.Owner == nil {
		errs = append(errs, field.Invalid(specPath.Child("owner"), "", "cannot be unset"))
	}
	return errs
}

// ValidateProjectStatusUpdate checks a changed status.
func ValidateProjectStatusUpdate(project, old *Project) field.ErrorList {
	if old.Status.Phase != "" && project.Status.Phase == "" {
		return field.ErrorList{field.Invalid(statusPath.Child("phase"), "", "cannot be unset")}
	}
	return nil
}

// validateProject checks a Project. Texts that were there before are not checked again.
func validateProject(project, old *Project) field.ErrorList {
	errs := validateMeta(&project.ObjectMeta, false, nameIsSubdomain)
	if len(project.Name) > maxProjectNameLength {
		errs = append(errs, field.TooLong(metadataPath.Child("name"), project.Name, maxProjectNameLength))
	}
	errs = append(errs, noDoubleHyphen(project.Name, metadataPath.Child("name"))...)
	spec := &project.Spec
	if spec.Namespace != nil {
		errs = append(errs, validateProjectNamespace(*spec.Namespace, specPath.Child("namespace"))...)
	}
	errs = append(errs, validateProjectMembers(spec.Members, specPath.Child("members"))...)
	if spec.CreatedBy != nil {
		errs = append(errs, validateSubject(spec.CreatedBy, specPath.Child("createdBy"))...)
	}
	if spec.Owner != nil {
		errs = append(errs, validateSubject(spec.Owner, specPath.Child("owner"))...)
	}
	errs = append(errs, validateFreeText(spec.Description, old.Spec.Description, specPath.Child("description"))...)
	errs = append(errs, validateFreeText(spec.Purpose, old.Spec.Purpose, specPath.Child("purpose"))...)
	errs = append(errs, ValidateProjectTolerations(spec.Tolerations, specPath.Child("tolerations"))...)
	path := specPath.Child("dualApprovalForDeletion")
	errs = append(errs, validateUnique(spec.DualApprovalForDeletion, path,
		func(d *DualApprovalForDeletion) string { return d.Resource }, child("resource"))...)
	for i := range spec.DualApprovalForDeletion {
		rule, path := &spec.DualApprovalForDeletion[i], path.Index(i)
		errs = append(errs, validateEnum(rule.Resource, path.Child("resource"), "shoots")...)
		errs = append(errs, validateLabelSelector(&rule.Selector, path.Child("selector"))...)
	}
	return errs
}

func validateProjectNamespace(namespace string, path *field.Path) field.ErrorList {
	errs := validateLabel(namespace, path)
	if slices.Contains(reservedNamespaces, namespace) {
		return append(errs, field.Invalid(path, namespace, "belongs to the landscape"))
	}
	if namespace != GardenNamespace && !strings.HasPrefix(namespace, ProjectNamespacePrefix) {
		errs = append(errs, field.Invalid(path, namespace, "must be "+GardenNamespace+" or begin with "+
			ProjectNamespacePrefix))
	}
	return errs
}

var projectRoles = []string{
	ProjectMemberOwner, ProjectMemberAdmin, ProjectMemberViewer, ProjectMemberUserAccessManager,
	ProjectMemberServiceAccountManager,
}

func validateProjectMembers(members []ProjectMember, path *field.Path) field.ErrorList {
	errs := validateUnique(members, path, func(m *ProjectMember) string { return subjectID(&m.Subject) }, itself)
	owners := 0
	for i := range members {
		member, path := &members[i], path.Index(i)
		errs = append(errs, validateSubject(&member.Subject, path)...)
		// The two fields are one list to the rest of the system, in which role comes first.
		roles := append([]string{member.Role}, member.Roles...)
		errs = append(errs, validateUniqueStrings(roles, path.Child("roles"))...)
		for j, role := range roles {
			path := path.Child("roles").Index(j)
			if extension, ok := strings.CutPrefix(role, ProjectMemberExtensionPrefix); ok {
				errs = append(errs, validateExtensionRole(extension, role, path)...)
				continue
			}
			errs = append(errs, validateEnum(role, path, append(slices.Clone(projectRoles), ProjectMemberExtensionPrefix+
				"<name>")...)...)
			if role == ProjectMemberOwner {
				if owners++; owners > 1 {
					errs = append(errs, field.Forbidden(path, "only one member can be the owner"))
				}
			}
		}
	}
	return errs
}

func validateExtensionRole(extension, role string, path *field.Path) field.ErrorList {
	if len(extension) > maxExtensionRoleLength {
		return field.ErrorList{field.TooLong(path, role, maxExtensionRoleLength+len(ProjectMemberExtensionPrefix))}
	}
	return validateLabel(extension, path)
}

// subjectID is equal for subjects that are the same to the API server.
func subjectID(subject *rbacv1.Subject) string {
	if subject.Kind == rbacv1.ServiceAccountKind {
		return rbacv1.UserKind + " " + serviceAccountUserPrefix + subject.Namespace + ":" + subject.Name
	}
	return subject.Kind + " " + subject.Name
}

func validateSubject(subject *rbacv1.Subject, path *field.Path) field.ErrorList {
	errs := validateRequired(subject.Name, path.Child("name"))
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		if subject.Name != "" {
			errs = append(errs, validateSubdomain(subject.Name, path.Child("name"))...)
		}
		errs = append(errs, validateRequired(subject.Namespace, path.Child("namespace"))...)
		errs = append(errs, validateEnum(subject.APIGroup, path.Child("apiGroup"), "")...)
	case rbacv1.UserKind, rbacv1.GroupKind:
		if subject.Namespace != "" {
			errs = append(errs, field.Forbidden(path.Child("namespace"), "users and groups have no namespace"))
		}
		errs = append(errs, validateEnum(subject.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), subject.Kind, []string{
			rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind,
		}))
	}
	return errs
}

// validateFreeText allows what can be shown anywhere without being mistaken for markup.
func validateFreeText(text, old *string, path *field.Path) field.ErrorList {
	if text == nil || old != nil && *text == *old {
		return nil
	}
	if *text == "" {
		return field.ErrorList{field.Required(path, "must not be empty when given")}
	}
	for _, r := range *text {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Zs, unicode.Pd) &&
			!strings.ContainsRune(`.,:;!?'"()[]{}_/&+@#%*=|~^`, r) {
			return field.ErrorList{
				field.Invalid(path, *text, "must consist of letters, digits, spaces and common punctuation on one line"),
			}
		}
	}
	return nil
}

// ValidateProjectTolerations checks keys, values and duplicates, and that all defaults may be used. The path is that of
// the tolerations. Those that hold for all projects follow the same rules.
func ValidateProjectTolerations(tolerations *ProjectTolerations, path *field.Path) field.ErrorList {
	if tolerations == nil {
		return nil
	}
	errs := validateTolerations(tolerations.Defaults, path.Child("defaults"))
	errs = append(errs, validateTolerations(tolerations.Whitelist, path.Child("whitelist"))...)
	for i, toleration := range tolerations.Defaults {
		if !slices.ContainsFunc(tolerations.Whitelist, func(w Toleration) bool {
			return w.Key == toleration.Key && (w.Value == nil || toleration.Value != nil && *w.Value == *toleration.Value)
		}) {
			errs = append(errs, field.Forbidden(path.Child("defaults").Index(i), "must be allowed by the whitelist"))
		}
	}
	return errs
}
