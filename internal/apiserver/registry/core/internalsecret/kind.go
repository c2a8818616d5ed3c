// Package internalsecret serves InternalSecrets.
package internalsecret

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how InternalSecrets are served.
func Kind() *registry.Kind[*corev1beta1.InternalSecret] {
	return &registry.Kind[*corev1beta1.InternalSecret]{
		Resource: corev1beta1.Resource("internalsecrets"),
		Version:  corev1beta1.SchemeGroupVersion.Version,
		Singular: "internalsecret",
		New:      func() *corev1beta1.InternalSecret { return &corev1beta1.InternalSecret{} },
		NewList:  func() runtime.Object { return &corev1beta1.InternalSecretList{} },

		Namespaced:    true,
		ShortNames:    []string{"ins"},
		Unconditional: true,

		PrepareForCreate: func(_ context.Context, s *corev1beta1.InternalSecret) { mergeStringData(s) },
		PrepareForUpdate: func(_ context.Context, s, old *corev1beta1.InternalSecret) bool {
			mergeStringData(s)
			if s.Type == "" {
				s.Type = old.Type
			}
			return false
		},

		Validate:       corev1beta1.ValidateInternalSecret,
		ValidateUpdate: corev1beta1.ValidateInternalSecretUpdate,
		Fields:         func(s *corev1beta1.InternalSecret) fields.Set { return fields.Set{"type": string(s.Type)} },

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Type", "Type of the data."),
			registry.Column("Data", "Number of keys."),
		},
		Row: func(s *corev1beta1.InternalSecret) []any { return []any{string(s.Type), len(s.Data)} },
	}
}

// mergeStringData moves stringData to data.
func mergeStringData(s *corev1beta1.InternalSecret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}
