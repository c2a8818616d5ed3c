package kube_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"hortus.dev/hortus/internal/kube"
)

func TestRequestsFor(t *testing.T) {
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	fails := false
	c := fake.NewClientBuilder().
		WithObjects(namespace("a", nil), namespace("b", map[string]string{"x": "y"}), namespace("c", nil)).
		WithInterceptorFuncs(interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption,
		) error {
			if fails {
				return errors.New("not started")
			}
			return c.List(ctx, list, opts...)
		}}).Build()
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
	}
	all := kube.RequestsFor(t.Context(), c, &corev1.NamespaceList{})
	if diff := cmp.Diff([]reconcile.Request{request("a"), request("b"), request("c")}, all); diff != "" {
		t.Errorf("all objects mismatch (-want +got):\n%s", diff)
	}
	some := kube.RequestsFor(t.Context(), c, &corev1.NamespaceList{}, client.MatchingLabels{"x": "y"})
	if diff := cmp.Diff([]reconcile.Request{request("b")}, some); diff != "" {
		t.Errorf("selected objects mismatch (-want +got):\n%s", diff)
	}
	fails = true
	if none := kube.RequestsFor(t.Context(), c, &corev1.NamespaceList{}); len(none) != 0 {
		t.Errorf("requests without a cache: %v", none)
	}
}
