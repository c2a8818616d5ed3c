// Package bastion serves Bastions.
package bastion

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Bastions are served.
func Kind() *registry.Kind[*operationsv1alpha1.Bastion] {
	return &registry.Kind[*operationsv1alpha1.Bastion]{
		Resource: operationsv1alpha1.Resource("bastions"),
		Version:  operationsv1alpha1.SchemeGroupVersion.Version,
		Singular: "bastion",
		New:      func() *operationsv1alpha1.Bastion { return &operationsv1alpha1.Bastion{} },
		NewList:  func() runtime.Object { return &operationsv1alpha1.BastionList{} },

		Namespaced: true,

		Spec:          func(o *operationsv1alpha1.Bastion) any { return &o.Spec },
		CopyStatus:    func(to, from *operationsv1alpha1.Bastion) { to.Status = from.Status },
		CopySpec:      func(to, from *operationsv1alpha1.Bastion) { to.Spec = from.Spec },
		DeletionBumps: true,

		Warnings: func(context.Context, *operationsv1alpha1.Bastion, *operationsv1alpha1.Bastion) []string {
			return []string{"a Bastion has no effect: no part of the system makes one"}
		},
		Validate:       operationsv1alpha1.ValidateBastion,
		ValidateUpdate: operationsv1alpha1.ValidateBastionUpdate,
		Fields: func(b *operationsv1alpha1.Bastion) fields.Set {
			return fields.Set{"spec.seedName": registry.Or(b.Spec.SeedName, ""), "spec.shootRef.name": b.Spec.ShootRef.Name}
		},
		Indexed: []string{"spec.seedName"},

		Columns: []metav1.TableColumnDefinition{
			registry.Column("Shoot", "Shoot whose machines are reached."),
			registry.Column("Seed", "Seed of the Shoot."),
		},
		Row: func(b *operationsv1alpha1.Bastion) []any {
			return []any{b.Spec.ShootRef.Name, registry.Or(b.Spec.SeedName, registry.None)}
		},
	}
}
