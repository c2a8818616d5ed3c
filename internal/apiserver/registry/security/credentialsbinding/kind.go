// Package credentialsbinding serves CredentialsBindings.
package credentialsbinding

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how CredentialsBindings are served.
func Kind() *registry.Kind[*securityv1alpha1.CredentialsBinding] {
	return &registry.Kind[*securityv1alpha1.CredentialsBinding]{
		Resource: securityv1alpha1.Resource("credentialsbindings"),
		Version:  securityv1alpha1.SchemeGroupVersion.Version,
		Singular: "credentialsbinding",
		New:      func() *securityv1alpha1.CredentialsBinding { return &securityv1alpha1.CredentialsBinding{} },
		NewList:  func() runtime.Object { return &securityv1alpha1.CredentialsBindingList{} },

		Namespaced: true,
		ShortNames: []string{"cb"},

		Default: securityv1alpha1.SetDefaultsCredentialsBinding,

		Validate:       securityv1alpha1.ValidateCredentialsBinding,
		ValidateUpdate: securityv1alpha1.ValidateCredentialsBindingUpdate,

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Provider", "Type of the provider."),
			registry.Column("APIVersion", "Version of the credentials."),
			registry.Column("Kind", "Kind of the credentials."),
			registry.Column("Name", "Namespace and name of the credentials."),
		},
		Row: func(b *securityv1alpha1.CredentialsBinding) []any {
			ref := b.CredentialsRef
			return []any{b.Provider.Type, ref.APIVersion, ref.Kind, ref.Namespace + "/" + ref.Name}
		},
	}
}
