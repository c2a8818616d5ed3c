// Package projectmutator records the creator of a project and keeps its owner among its members.
package projectmutator

import (
	"context"
	"io"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// Name of the plugin.
const Name = "ProjectMutator"

// New returns the plugin. It has no configuration.
func New(io.Reader) (admission.Interface, error) {
	return &plugin{admission.NewHandler(admission.Create, admission.Update)}, nil
}

type plugin struct{ *admission.Handler }

// Admit completes a project.
func (p *plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	project, ok := a.GetObject().(*corev1beta1.Project)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	if a.GetOperation() == admission.Create {
		creator := subject(a.GetUserInfo().GetName())
		project.Spec.CreatedBy = &creator
		if project.Spec.Owner == nil {
			project.Spec.Owner = ownerOf(project, creator)
		}
	}
	includeOwner(project)
	return nil
}

// subject returns the subject for a user name.
func subject(name string) rbacv1.Subject {
	if namespace, account, err := serviceaccount.SplitUsername(name); err == nil {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// ownerOf returns the first member with the role owner, or else the creator.
func ownerOf(project *corev1beta1.Project, creator rbacv1.Subject) *rbacv1.Subject {
	for _, member := range project.Spec.Members {
		if member.Role == corev1beta1.ProjectMemberOwner || slices.Contains(member.Roles, corev1beta1.ProjectMemberOwner) {
			return &member.Subject
		}
	}
	return &creator
}

func includeOwner(project *corev1beta1.Project) {
	owner := project.Spec.Owner
	if owner == nil || slices.ContainsFunc(project.Spec.Members,
		func(m corev1beta1.ProjectMember) bool { return m.Subject == *owner }) {
		return
	}
	project.Spec.Members = append(project.Spec.Members, corev1beta1.ProjectMember{
		Subject: *owner, Role: corev1beta1.ProjectMemberAdmin, Roles: []string{corev1beta1.ProjectMemberOwner},
	})
}
