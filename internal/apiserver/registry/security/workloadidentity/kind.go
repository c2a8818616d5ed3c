// Package workloadidentity serves WorkloadIdentities.
package workloadidentity

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how WorkloadIdentities are served. The subresource token needs an issuer.
func Kind(issuer *TokenIssuer) *registry.Kind[*securityv1alpha1.WorkloadIdentity] {
	kind := &registry.Kind[*securityv1alpha1.WorkloadIdentity]{
		Resource: securityv1alpha1.Resource("workloadidentities"),
		Version:  securityv1alpha1.SchemeGroupVersion.Version,
		Singular: "workloadidentity",
		New:      func() *securityv1alpha1.WorkloadIdentity { return &securityv1alpha1.WorkloadIdentity{} },
		NewList:  func() runtime.Object { return &securityv1alpha1.WorkloadIdentityList{} },

		Namespaced: true,
		ShortNames: []string{"wi"},

		Spec: func(o *securityv1alpha1.WorkloadIdentity) any { return &o.Spec },

		// The subject never changes, so that target systems that trust it continue to do so.
		PrepareForCreate: func(_ context.Context, w *securityv1alpha1.WorkloadIdentity) {
			w.Status.Sub = fmt.Sprintf("gardener.cloud:workloadidentity:%s:%s:%s", w.Namespace, w.Name, w.UID)
		},
		PrepareForUpdate: func(_ context.Context, w, old *securityv1alpha1.WorkloadIdentity) bool {
			w.Status = old.Status
			return false
		},

		Validate:       securityv1alpha1.ValidateWorkloadIdentity,
		ValidateUpdate: securityv1alpha1.ValidateWorkloadIdentityUpdate,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Type", "Type of the target system."),
		},
		Row: func(w *securityv1alpha1.WorkloadIdentity) []any { return []any{w.Spec.TargetSystem.Type} },
	}
	if issuer != nil {
		kind.Subresources = issuer.Subresources
		return kind
	}
	kind.Warnings = func(context.Context, *securityv1alpha1.WorkloadIdentity,
		*securityv1alpha1.WorkloadIdentity) []string {
		return []string{"a WorkloadIdentity has no effect here: the API server has no key to sign tokens with"}
	}
	return kind
}
