// Package project serves Projects.
package project

import (
	"context"

	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Projects are served.
func Kind() *registry.Kind[*corev1beta1.Project] {
	return &registry.Kind[*corev1beta1.Project]{
		Resource: corev1beta1.Resource("projects"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "project",
		New:      func() *corev1beta1.Project { return &corev1beta1.Project{} },
		NewList:  func() runtime.Object { return &corev1beta1.ProjectList{} },

		Unconditional: true,

		Spec:             func(o *corev1beta1.Project) any { return &o.Spec },
		CopyStatus:       func(to, from *corev1beta1.Project) { to.Status = from.Status },
		CopySpec:         func(to, from *corev1beta1.Project) { to.Spec = from.Spec },
		PrepareForCreate: func(_ context.Context, p *corev1beta1.Project) { markOwner(p) },
		PrepareForUpdate: func(_ context.Context, p, _ *corev1beta1.Project) bool {
			markOwner(p)
			return false
		},

		Validate:             corev1beta1.ValidateProject,
		ValidateUpdate:       corev1beta1.ValidateProjectUpdate,
		ValidateStatusUpdate: corev1beta1.ValidateProjectStatusUpdate,
		Fields: func(p *corev1beta1.Project) fields.Set {
			set := fields.Set{"spec.namespace": ""}
			if p.Spec.Namespace != nil {
				set["spec.namespace"] = *p.Spec.Namespace
			}
			return set
		},
		Indexed: []string{"spec.namespace"},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Namespace", "Namespace of the project."),
			registry.Column("Status", "Phase of the project."),
			registry.Column("Owner", "Owner of the project."),
			registry.Column("Creator", "Creator of the project."),
		},
		Row: func(p *corev1beta1.Project) []any {
			phase, owner, creator := string(p.Status.Phase), "", ""
			if p.Spec.Owner != nil {
				owner = p.Spec.Owner.Name
			}
			if p.Spec.CreatedBy != nil {
				creator = p.Spec.CreatedBy.Name
			}
			return []any{
				registry.Or(p.Spec.Namespace, registry.Unknown), registry.Or(&phase, registry.Unknown),
				registry.Or(&owner, registry.Unknown), registry.Or(&creator, registry.Unknown),
			}
		},
	}
}

// markOwner gives the role owner to the owner, if a member, and removes it from all other members.
func markOwner(p *corev1beta1.Project) {
	owner := p.Spec.Owner
	if owner == nil || !slices.ContainsFunc(p.Spec.Members,
		func(m corev1beta1.ProjectMember) bool { return m.Subject == *owner }) {
		return
	}
	found := false
	for i := range p.Spec.Members {
		member := &p.Spec.Members[i]
		isOwner := !found && member.Subject == *owner
		found = found || isOwner
		roles := append([]string{member.Role}, member.Roles...)
		is := slices.Contains(roles, corev1beta1.ProjectMemberOwner)
		switch {
		case isOwner && !is:
			roles = append(roles, corev1beta1.ProjectMemberOwner)
		case !isOwner && is:
			roles = slices.DeleteFunc(roles, func(role string) bool { return role == corev1beta1.ProjectMemberOwner })
		default:
			continue
		}
		member.Role, member.Roles = "", nil
		if len(roles) > 0 {
			member.Role, member.Roles = roles[0], roles[1:]
		}
		if len(member.Roles) == 0 {
			member.Roles = nil
		}
	}
}
