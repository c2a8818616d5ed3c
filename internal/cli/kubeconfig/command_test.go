package kubeconfig

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Users read why the API server refuses a request.
func TestRefusalsAreExplained(t *testing.T) {
	for _, refusal := range []*apierrors.StatusError{
		apierrors.NewNotFound(schema.GroupResource{Group: "core.gardener.cloud", Resource: "shoots"}, "demo"),
		apierrors.NewServiceUnavailable("the CA has not been published yet"),
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status := refusal.Status()
			status.Kind, status.APIVersion = "Status", "v1"
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
		}))
		defer server.Close()
		_, err := Shoot(t.Context(), &rest.Config{Host: server.URL}, "garden-dev", "demo", false, time.Hour)
		if err == nil || !strings.Contains(err.Error(), refusal.Error()) {
			t.Errorf("the error is %v, want it to say %q", err, refusal)
		}
	}
}
