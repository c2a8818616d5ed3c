// Package mutation answers admission requests with the changes that a function makes to the object.
package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Change changes the object of a request, and reports whether it did. The namespace is taken from the request, since an
// object that is being created need not have one yet.
type Change[T client.Object] func(ctx context.Context, namespace string, object T) (bool, error)

// Handler answers requests for objects of one type.
type Handler[T client.Object] struct {
	Decoder admission.Decoder
	// New returns an empty object.
	New    func() T
	Change Change[T]
}

// Webhook returns a webhook for objects of the type that newObject returns.
func Webhook[T client.Object](scheme *runtime.Scheme, newObject func() T, change Change[T]) *admission.Webhook {
	return &admission.Webhook{
		Handler: &Handler[T]{Decoder: admission.NewDecoder(scheme), New: newObject, Change: change},
	}
}

// Handle implements [admission.Handler].
func (h *Handler[T]) Handle(ctx context.Context, request admission.Request) admission.Response {
	object := h.New()
	if err := h.Decoder.Decode(request, object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode %s: %w", request.Kind.Kind, err))
	}
	before := object.DeepCopyObject()
	changed, err := h.Change(ctx, request.Namespace, object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if !changed {
		return admission.Allowed("")
	}
	// The patch is computed from the decoded object, so that fields unknown to these types are kept.
	original, err1 := json.Marshal(before)
	mutated, err2 := json.Marshal(object)
	if err := errors.Join(err1, err2); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encode %s: %w", request.Kind.Kind, err))
	}
	return admission.PatchResponseFromRaw(original, mutated)
}
