package shoot

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// forbidding is a garden whose seed authorizer does not know yet which Shoots a gardenlet may read.
func forbidding() client.Client {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(corev1beta1.Resource("shoots"), key.Name, nil)
		},
	})
}

// A Shoot that was just assigned must not be dropped: only a change of it would trigger the next reconciliation.
func TestForbiddenShootIsTriedAgain(t *testing.T) {
	r := &Reconciler{SeedName: "here", Garden: forbidding()}
	for _, c := range []struct {
		name         string
		spec, status *string
		again        bool
	}{
		{name: "assigned", spec: new("here"), again: true},
		{name: "moves here", spec: new("here"), status: new("there"), again: true},
		{name: "moves away", spec: new("there"), status: new("here"), again: true},
		{name: "has moved away", spec: new("there"), status: new("there")},
	} {
		t.Run(c.name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-dev", Name: "one"}}
			shoot.Spec.SeedName, shoot.Status.SeedName = c.spec, c.status
			shoot.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeMigrate}
			if _, err := r.Reconcile(t.Context(), shoot); (err != nil) != c.again {
				t.Errorf("error %v, want one: %t", err, c.again)
			}
		})
	}
}
