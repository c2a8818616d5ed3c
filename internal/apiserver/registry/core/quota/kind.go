// Package quota serves Quotas.
package quota

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Quotas are served.
func Kind() *registry.Kind[*corev1beta1.Quota] {
	return &registry.Kind[*corev1beta1.Quota]{
		Resource: corev1beta1.Resource("quotas"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "quota",
		New:      func() *corev1beta1.Quota { return &corev1beta1.Quota{} },
		NewList:  func() runtime.Object { return &corev1beta1.QuotaList{} },

		Namespaced:    true,
		ShortNames:    []string{"squota"},
		Unconditional: true,

		Validate:       corev1beta1.ValidateQuota,
		ValidateUpdate: corev1beta1.ValidateQuotaUpdate,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Scope", "Kind of the objects that share the quota."),
			registry.Column("Cluster Lifetime", "After how many days Shoots are deleted."),
		},
		Row: func(q *corev1beta1.Quota) []any {
			lifetime := "<unspecified>"
			if days := q.Spec.ClusterLifetimeDays; days != nil {
				lifetime = fmt.Sprintf("%d days", *days)
			}
			return []any{q.Spec.Scope.APIVersion + "." + q.Spec.Scope.Kind, lifetime}
		},
	}
}
