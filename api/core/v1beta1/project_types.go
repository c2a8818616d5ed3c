package v1beta1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Project is a team: a namespace for its Shoots, and its members.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Project struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec names the members and the namespace.
	// +optional
	Spec ProjectSpec `json:"spec,omitempty"`
	// status is written by the project controller.
	// +optional
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of Projects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Projects.
	Items []Project `json:"items"`
}

// ProjectSpec names a project's members and namespace.
type ProjectSpec struct {
	// createdBy is the subject that made the project. Set by the API server; immutable.
	// +optional
	CreatedBy *rbacv1.Subject `json:"createdBy,omitempty"`
	// description is a human-readable description of the project.
	// +optional
	Description *string `json:"description,omitempty"`
	// owner is responsible for the project and always a member. Default: the creator. Cannot be removed.
	// +optional
	Owner *rbacv1.Subject `json:"owner,omitempty"`
	// purpose is a human-readable description of the project's purpose.
	// +optional
	Purpose *string `json:"purpose,omitempty"`
	// members of the project and their roles.
	// +optional
	Members []ProjectMember `json:"members,omitempty"`
	// namespace of the project: garden, or a name that begins with garden-. Empty: generated. Immutable once set.
	// +optional
	Namespace *string `json:"namespace,omitempty"`
	// tolerations that Shoots of the project get and may have.
	// +optional
	Tolerations *ProjectTolerations `json:"tolerations,omitempty"`
	// dualApprovalForDeletion lists resources whose deletion requires approval by a second user.
	// +optional
	DualApprovalForDeletion []DualApprovalForDeletion `json:"dualApprovalForDeletion,omitempty"`
}

// Roles of project members. Roles of extensions have the prefix ProjectMemberExtensionPrefix.
const (
	ProjectMemberOwner                 = "owner"
	ProjectMemberAdmin                 = "admin"
	ProjectMemberViewer                = "viewer"
	ProjectMemberUserAccessManager     = "uam"
	ProjectMemberServiceAccountManager = "serviceaccountmanager"
	ProjectMemberExtensionPrefix       = "extension:"
)

// ProjectMember is a subject and what it may do in the project.
type ProjectMember struct {
	rbacv1.Subject `json:",inline"`
	// role is the first role: owner, admin, viewer, uam, serviceaccountmanager or extension:<name>. Default
	// viewer, when there is no role at all.
	Role string `json:"role"`
	// roles are further roles of the member, besides role.
	// +optional
	Roles []string `json:"roles,omitempty"`
}

// ProjectTolerations are tolerations that Shoots of a project get and may have.
type ProjectTolerations struct {
	// defaults are added to new Shoots that lack the key.
	// +optional
	// +patchMergeKey=key
	// +patchStrategy=merge
	Defaults []Toleration `json:"defaults,omitempty" patchStrategy:"merge" patchMergeKey:"key"`
	// whitelist are the tolerations that Shoots may have. Changing it needs the verb
	// modify-spec-tolerations-whitelist.
	// +optional
	// +patchMergeKey=key
	// +patchStrategy=merge
	Whitelist []Toleration `json:"whitelist,omitempty" patchStrategy:"merge" patchMergeKey:"key"`
}

// DualApprovalForDeletion lists resources whose deletion requires approval by a second user.
type DualApprovalForDeletion struct {
	// resource is shoots.
	Resource string `json:"resource"`
	// selector limits the rule to objects with certain labels. Empty: all.
	Selector metav1.LabelSelector `json:"selector"`
	// includeServiceAccounts is false when service accounts may delete alone. Empty: true.
	// +optional
	IncludeServiceAccounts *bool `json:"includeServiceAccounts,omitempty"`
}

// ProjectPhase is the state of a project.
type ProjectPhase string

const (
	ProjectPending     ProjectPhase = "Pending"
	ProjectReady       ProjectPhase = "Ready"
	ProjectFailed      ProjectPhase = "Failed"
	ProjectTerminating ProjectPhase = "Terminating"
)

// ProjectStatus is written by the project controller.
type ProjectStatus struct {
	// observedGeneration is the generation that the controller has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Pending, Ready, Failed or Terminating.
	// +optional
	Phase ProjectPhase `json:"phase,omitempty"`
	// staleSinceTimestamp is since when the project has been unused. Empty: in use.
	// +optional
	StaleSinceTimestamp *metav1.Time `json:"staleSinceTimestamp,omitempty"`
	// staleAutoDeleteTimestamp is when the unused project will be deleted.
	// +optional
	StaleAutoDeleteTimestamp *metav1.Time `json:"staleAutoDeleteTimestamp,omitempty"`
	// lastActivityTimestamp is when the project was used last.
	// +optional
	LastActivityTimestamp *metav1.Time `json:"lastActivityTimestamp,omitempty"`
	// conditions of the project.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}
