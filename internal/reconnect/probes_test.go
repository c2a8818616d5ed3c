package reconnect

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProbes(t *testing.T) {
	p := &Probes{}
	ask := func(path string) int {
		w := httptest.NewRecorder()
		p.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	for _, ready := range []bool{false, true} {
		want := http.StatusServiceUnavailable
		if ready {
			p.Ready()
			want = http.StatusOK
		}
		if got := ask("/readyz"); got != want {
			t.Errorf("ready %t: /readyz answers %d, want %d", ready, got, want)
		}
		if got := ask("/healthz"); got != http.StatusOK {
			t.Errorf("ready %t: /healthz answers %d", ready, got)
		}
	}
}
