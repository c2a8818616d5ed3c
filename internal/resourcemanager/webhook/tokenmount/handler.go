package tokenmount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Handler answers for pods that are created.
type Handler struct {
	// Reader of ServiceAccounts. It is not cached: a pod may come right after its account.
	Reader  client.Reader
	Decoder admission.Decoder
}

// Handle implements [admission.Handler].
func (h *Handler) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := h.Decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode Pod: %w", err))
	}
	account := &corev1.ServiceAccount{}
	key := client.ObjectKey{Namespace: request.Namespace, Name: pod.Spec.ServiceAccountName}
	if err := h.Reader.Get(ctx, key, account); apierrors.IsNotFound(err) {
		return admission.Allowed("the ServiceAccount does not exist")
	} else if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("read ServiceAccount %s: %w", key, err))
	}
	before := pod.DeepCopy()
	if !Mount(pod, account) {
		return admission.Allowed("the Pod needs no token")
	}
	// Compared with what was decoded, so that fields that these types do not know stay.
	original, err1 := json.Marshal(before)
	mutated, err2 := json.Marshal(pod)
	if err := errors.Join(err1, err2); err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("encode Pod: %w", err))
	}
	return admission.PatchResponseFromRaw(original, mutated)
}
