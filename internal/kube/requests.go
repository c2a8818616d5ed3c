package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RequestsFor lists objects in a cache, and returns a request for each of them. An error is only logged: a cache cannot
// be read before it has started, and then all objects are reconciled anyway.
func RequestsFor(
	ctx context.Context, cache client.Reader, list client.ObjectList, options ...client.ListOption,
) []reconcile.Request {
	var requests []reconcile.Request
	err := cache.List(ctx, list, options...)
	if err == nil {
		err = meta.EachListItem(list, func(o runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
			return nil
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list objects to reconcile", "list", fmt.Sprintf("%T", list))
	}
	return requests
}
