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
	"k8s.io/client-go/tools/clientcmd"
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

// Servers get the names in their certificates, which a hosts file resolves.
func TestResolved(t *testing.T) {
	const given = `{"apiVersion":"v1","kind":"Config","clusters":[
		{"name":"a","cluster":{"server":"https://10.0.0.1:443","tls-server-name":"api.a.example.com"}},
		{"name":"b","cluster":{"server":"https://10.0.0.1:443/path","tls-server-name":"api.a.example.com"}},
		{"name":"c","cluster":{"server":"https://[fd00::1]","tls-server-name":"api.c.example.com"}},
		{"name":"d","cluster":{"server":"https://api.d.example.com","tls-server-name":"other"}},
		{"name":"e","cluster":{"server":"https://10.0.0.2"}}]}`
	named, hosts, err := resolved([]byte(given))
	if err != nil {
		t.Fatal(err)
	}
	if want := "10.0.0.1 api.a.example.com\nfd00::1 api.c.example.com\n"; hosts != want {
		t.Errorf("the hosts are %q, want %q", hosts, want)
	}
	config, err := clientcmd.Load(named)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"a": {"https://api.a.example.com:443", ""}, "b": {"https://api.a.example.com:443/path", ""},
		"c": {"https://api.c.example.com", ""}, "d": {"https://api.d.example.com", "other"}, "e": {"https://10.0.0.2", ""},
	} {
		if c := config.Clusters[name]; c.Server != want[0] || c.TLSServerName != want[1] {
			t.Errorf("cluster %s has server %q with name %q, want %q", name, c.Server, c.TLSServerName, want)
		}
	}
}
