package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

func TestWaitForAPI(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if err := WaitForAPI(t.Context(), &rest.Config{Host: server.URL, QPS: -1}, "/readyz",
		"/apis/example.com/v1"); err != nil {
		t.Fatal(err)
	}
	if got := asked.Load(); got != 4 {
		t.Errorf("got %d requests, want two rejected ones and a response for each path", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := WaitForAPI(ended, &rest.Config{Host: "http://127.0.0.1:1"}, "/readyz"); err == nil {
		t.Error("an ended wait reports success")
	}
}
