// Package bastion serves Bastions.
package bastion

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	"hortus.dev/hortus/internal/apiserver/registry"
)

// Kind describes how Bastions are served. The clock is for their expiration.
func Kind(clock clock.PassiveClock) *registry.Kind[*operationsv1alpha1.Bastion] {
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

		PrepareForCreate: func(_ context.Context, b *operationsv1alpha1.Bastion) {
			if b.Annotations[corev1beta1.AnnotationOperation] == corev1beta1.OperationKeepalive { // It is alive anyway.
				delete(b.Annotations, corev1beta1.AnnotationOperation)
			}
			beat(b, clock.Now())
		},
		PrepareForUpdate: func(_ context.Context, b, _ *operationsv1alpha1.Bastion) bool {
			keepAlive(b, clock.Now())
			return false
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
			registry.Column("Address", "Address to connect to."),
			registry.Column("Ready", "Whether the Bastion takes connections."),
			registry.Column("Expires", "Time of its deletion without another sign of life."),
		},
		Row: func(b *operationsv1alpha1.Bastion) []any {
			return []any{
				b.Spec.ShootRef.Name, registry.Or(b.Spec.SeedName, registry.None), address(b),
				ready(b), expires(b),
			}
		},
	}
}

func address(b *operationsv1alpha1.Bastion) string {
	if got := b.Status.Address(); got != "" {
		return got
	}
	return registry.None
}

func ready(b *operationsv1alpha1.Bastion) string {
	condition := corev1beta1.FindCondition(b.Status.Conditions, operationsv1alpha1.BastionReady)
	if condition == nil {
		return registry.None
	}
	return string(condition.Status)
}

func expires(b *operationsv1alpha1.Bastion) string {
	if b.Status.ExpirationTimestamp == nil {
		return registry.None
	}
	return b.Status.ExpirationTimestamp.UTC().Format(time.RFC3339)
}
