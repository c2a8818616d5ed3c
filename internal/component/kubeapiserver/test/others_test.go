package test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"hortus.dev/hortus/internal/pki"
)

// serve answers on a loopback address with a certificate of the CA for userHost, and returns its URL there.
func serve(t *testing.T, ca *pki.CA, handler http.Handler) (server *httptest.Server, url string) {
	t.Helper()
	pair, err := ca.Issue(pki.Request{CommonName: "user", DNSNames: []string{userHost}, Usage: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	server = httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, strings.Replace(server.URL, "127.0.0.1", userHost, 1)
}

func respond(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// issuer is the identity provider of the user.
type issuer struct {
	key *rsa.PrivateKey
	url string
}

func newIssuer(t *testing.T, ca *pki.CA) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{
			"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", "n": encode(key.N.Bytes()),
			"e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	_, i.url = serve(t, ca, mux)
	return i
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// token of a user, signed with the issuer's key, for the issuer's URL.
func (i *issuer) token(t *testing.T, url, user string) string {
	t.Helper()
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return encode(text)
	}
	text := part(map[string]string{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
		"iss": url, "aud": "shoot", "sub": user, "iat": time.Now().Add(-time.Minute).Unix(),
		"exp": time.Now().Add(time.Hour).Unix(),
	})
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(signature)
}

// webhook is the authorizer of the user. It allows Anna everything and forbids Eve everything.
type webhook struct {
	server *httptest.Server
	url    string
	mu     sync.Mutex
	users  []string
}

func newWebhook(t *testing.T, ca *pki.CA) *webhook {
	t.Helper()
	h := &webhook{}
	h.server, h.url = serve(t, ca, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		h.users = append(h.users, review.Spec.User)
		h.mu.Unlock()
		review.Status.Allowed = review.Spec.User == "idp:anna"
		review.Status.Denied = review.Spec.User == "eve"
		respond(w, review)
	}))
	return h
}

// The webhook records the users whose requests it has reviewed.
func (h *webhook) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.users)
}

// output is the output of the server.
type output struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content.Write(p)
}

// events of the audit log. A line that is still being written does not count.
func (o *output) events(t *testing.T) []auditv1.Event {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var events []auditv1.Event
	lines := bytes.Split(o.content.Bytes(), []byte("\n"))
	for _, line := range lines[:len(lines)-1] {
		event := auditv1.Event{}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("the server writes %q", line)
		}
		events = append(events, event)
	}
	return events
}

// anonymous is the status of a response to a request without credentials.
func anonymous(t *testing.T, config *rest.Config, path string) int {
	t.Helper()
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Get(strings.TrimSuffix(config.Host, "/") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}
