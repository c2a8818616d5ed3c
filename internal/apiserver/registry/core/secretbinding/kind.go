// Package secretbinding serves SecretBindings.
package secretbinding

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how SecretBindings are served.
func Kind() *registry.Kind[*corev1beta1.SecretBinding] {
	return &registry.Kind[*corev1beta1.SecretBinding]{
		Resource: corev1beta1.Resource("secretbindings"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "secretbinding",
		New:      func() *corev1beta1.SecretBinding { return &corev1beta1.SecretBinding{} },
		NewList:  func() runtime.Object { return &corev1beta1.SecretBindingList{} },

		Namespaced:    true,
		ShortNames:    []string{"sb"},
		Unconditional: true,

		Default: corev1beta1.SetDefaultsSecretBinding,

		Validate:       corev1beta1.ValidateSecretBinding,
		ValidateUpdate: corev1beta1.ValidateSecretBindingUpdate,
		Warnings: func(_ context.Context, b, old *corev1beta1.SecretBinding) []string {
			return corev1beta1.WarningsSecretBinding(b, old)
		},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Secret", "Secret with the credentials."),
			registry.Column("Provider", "Type of the provider."),
		},
		Row: func(b *corev1beta1.SecretBinding) []any {
			provider := registry.None
			if b.Provider != nil && b.Provider.Type != "" {
				provider = b.Provider.Type
			}
			return []any{b.SecretRef.Namespace + "/" + b.SecretRef.Name, provider}
		},
	}
}
