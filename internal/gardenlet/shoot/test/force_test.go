package test

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

func TestForcedDeletionSkipsExtensions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.run(w.newShoot("a"), succeeded)
	// The finalizer of the extension still blocks the object, as with invalid credentials.
	infrastructure := &extensionsv1alpha1.Infrastructure{}
	key := client.ObjectKey{Namespace: s.Status.TechnicalID, Name: s.Name}
	w.must(w.Client.Get(w.ctx, key, infrastructure))
	w.fail["Infrastructure"] = corev1beta1.ErrorInfraUnauthorized
	infrastructure.Finalizers = []string{"extensions.gardener.cloud/infrastructure"}
	w.must(w.Client.Update(w.ctx, infrastructure))
	w.delete(s)
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		err := w.Client.Get(w.ctx, key, infrastructure)
		w.must(client.IgnoreNotFound(err))
		return err == nil && infrastructure.DeletionTimestamp != nil
	})
	now := infrastructure.DeletionTimestamp
	infrastructure.Status.LastError = &corev1beta1.LastError{
		Description: "no access", Codes: []corev1beta1.ErrorCode{corev1beta1.ErrorInfraUnauthorized}, LastUpdateTime: now,
	}
	w.must(w.Client.Status().Update(w.ctx, infrastructure))
	s = w.run(s, func(s *corev1beta1.Shoot) bool {
		w.clock.Step(time.Minute)
		return s.Status.LastOperation.State == corev1beta1.LastOperationStateFailed
	})

	before := s.DeepCopy()
	s.Annotations[corev1beta1.AnnotationConfirmationForceDeletion] = "true"
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	s = w.run(s, func(*corev1beta1.Shoot) bool {
		w.must(w.Client.Get(w.ctx, key, infrastructure))
		return infrastructure.Annotations[extensionsv1alpha1.AnnotationConfirmForceDeletion] == "true" ||
			infrastructure.DeletionTimestamp != nil
	})
	infrastructure.Finalizers = nil // The extension releases its object.
	w.must(w.Client.Update(w.ctx, infrastructure))
	w.run(s, gone)
	if err := w.Client.Get(w.ctx, key, infrastructure); !apierrors.IsNotFound(err) {
		t.Errorf("the Infrastructure is still there: %v", err)
	}
}
