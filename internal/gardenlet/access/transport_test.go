package access

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/pki"
)

// TestCertificateChangesUnderWatches: an open watch continues; later requests use the new certificate.
func TestCertificateChangesUnderWatches(t *testing.T) {
	ca, err := pki.NewCA("ca", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, usage pki.Usage) pki.KeyPair {
		pair, err := ca.Issue(pki.Request{CommonName: name, DNSNames: []string{"garden"}, Usage: usage})
		if err != nil {
			t.Fatal(err)
		}
		return *pair
	}
	serving := issue("server", pki.Server)
	pair, err := tls.X509KeyPair(serving.CertPEM, serving.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(ca.Cert())

	send := make(chan string)
	mux := http.NewServeMux()
	mux.HandleFunc("/who", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName) // A disconnected client fails the test.
	})
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		for line := range send {
			_, _ = fmt.Fprintln(w, line, r.TLS.PeerCertificates[0].Subject.CommonName)
			w.(http.Flusher).Flush()
		}
	})
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	server.StartTLS()
	t.Cleanup(server.Close)

	base := &rest.Config{
		Host: server.URL, UserAgent: "test", TLSClientConfig: rest.TLSClientConfig{CAData: ca.CertPEM, ServerName: "garden"},
	}
	transport, err := NewTransport(base, issue("first", pki.Client))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(transport.Config())
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *http.Response {
		t.Helper()
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	who := func() string {
		t.Helper()
		line, _ := bufio.NewReader(get("/who").Body).ReadString('\n') // The stream has one line so far, and does not end.
		return line
	}
	if got := who(); got != "first" {
		t.Fatalf("the server sees %q", got)
	}
	go func() { send <- "begin" }()
	watch := bufio.NewReader(get("/watch").Body)
	if line, err := watch.ReadString('\n'); err != nil || line != "begin first\n" {
		t.Fatalf("watch: %q, %v", line, err)
	}
	if err := transport.Use(issue("second", pki.Client)); err != nil {
		t.Fatal(err)
	}
	if got := who(); got != "second" {
		t.Errorf("after the change the server sees %q", got)
	}
	send <- "more"
	if line, err := watch.ReadString('\n'); err != nil || line != "more first\n" {
		t.Errorf("the watch has ended: %q, %v", line, err)
	}
	close(send)
}
