package ssh

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// api is the API of a garden and of its only Shoot, which has the node a.
type api struct {
	*httptest.Server
	down     bool // Whether the Shoot's API server is.
	code     int  // The answer of the node's kubelet.
	hostKeys []byte
}

func newAPI(t *testing.T) *api {
	a := &api{code: http.StatusOK}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(object any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/shoots/demo/adminkubeconfig"):
		config := clientcmdapi.NewConfig()
		config.Clusters["demo"] = &clientcmdapi.Cluster{Server: a.URL}
		config.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo"}
		config.CurrentContext = "demo"
		data, _ := clientcmd.Write(*config)
		answer(map[string]any{"status": map[string]any{"kubeconfig": data}})
	case a.down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/api/v1/nodes":
		answer(corev1.NodeList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
			Items:    []corev1.Node{aNode("a", "10.0.0.1", corev1.ConditionTrue)},
		})
	case r.URL.Path == "/api/v1/nodes/a/proxy/logs/ssh-host-key.pub":
		w.WriteHeader(a.code)
		_, _ = w.Write(a.hostKeys)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// A node is found and its host key checked as far as the Shoot's API server and the node answer.
func TestFindNode(t *testing.T) {
	a, key, other := newAPI(t), newKey(t).PublicKey(), newKey(t).PublicKey()
	c := &command{namespace: "garden-dev", config: &rest.Config{Host: a.URL}}
	shoot := &corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid"}}
	folder := t.TempDir()
	for _, tc := range []struct {
		name      string
		down      bool
		code      int
		published ssh.PublicKey
		known     string // A file, so that cases see the records of earlier ones.
		node      string
		seen      ssh.PublicKey
		notice    string
		err       string
	}{
		{"the published key", false, 200, key, "own", "a", key, "", ""},
		{"another key", false, 200, key, "own", "a", other, "", "published by the node"},
		{"no API server, by address", true, 0, nil, "own", "10.0.0.1", key, "Using the host key recorded in", ""},
		{"no API server, another key", true, 0, nil, "own", "10.0.0.1", other, "", "recorded in"},
		{"no API server, by name", true, 0, nil, "own", "a", key, "", "give the internal address of a node"},
		{"no API server, any node", true, 0, nil, "own", "", key, "", "give the internal address of a node"},
		{"no API server, unknown address", true, 0, nil, "own", "10.0.0.9", key, "", "none is recorded"},
		{"no kubelet", false, 503, nil, "own", "a", key, "Using the host key recorded in", ""},
		{"no kubelet, another key", false, 503, nil, "own", "a", other, "", "recorded in"},
		{"no kubelet, no record", false, 503, nil, "none", "a", key, "", "none is recorded"},
		{"nothing published", false, 404, nil, "404", "a", key, "publishes no host key. Recording", ""},
		{"unreadable", false, 403, nil, "403", "a", key, "cannot be read (403). Recording", ""},
		{"unreadable, another key", false, 403, nil, "403", "a", other, "", "recorded in"},
		{"no logs", false, 405, nil, "405", "a", key, "cannot be read (405). Recording", ""},
		{"no such node", false, 200, key, "own", "10.0.0.9", key, "", "node not found"},
	} {
		a.down, a.code, a.hostKeys = tc.down, tc.code, nil
		if tc.published != nil {
			a.hostKeys = ssh.MarshalAuthorizedKey(tc.published)
		}
		var notices bytes.Buffer
		found, err := c.findNode(t.Context(), shoot, tc.node, knownHosts{path: filepath.Join(folder, tc.known)}, &notices)
		if err == nil {
			err = found.hostKey.callback("", nil, tc.seen)
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.err)
		}
		if err == nil && found.address != "10.0.0.1" {
			t.Errorf("%s: the address is %s", tc.name, found.address)
		}
		if got := notices.String(); !strings.Contains(got, tc.notice) || err == nil && tc.notice == "" && got != "" {
			t.Errorf("%s: the notice is %q, want %q", tc.name, got, tc.notice)
		}
	}
}
