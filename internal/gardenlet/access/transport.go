package access

import (
	"fmt"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"hortus.dev/hortus/internal/pki"
)

// Transport sends each request with the certificate that is current when the request begins. Connections with an
// earlier certificate serve their requests to the end, and get no new ones.
type Transport struct {
	base    *rest.Config // All but the client certificate.
	current atomic.Pointer[http.RoundTripper]
}

// NewTransport returns a Transport for a server, with its first certificate.
func NewTransport(base *rest.Config, pair pki.KeyPair) (*Transport, error) {
	t := &Transport{base: base}
	return t, t.Use(pair)
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return (*t.current.Load()).RoundTrip(r)
}

// CloseIdleConnections closes connections without a request.
func (t *Transport) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(*t.current.Load()) }

// Use sends new requests with another certificate.
func (t *Transport) Use(pair pki.KeyPair) error {
	config := rest.CopyConfig(t.base)
	config.CertData, config.KeyData = pair.CertPEM, pair.KeyPEM
	next, err := rest.TransportFor(config)
	if err != nil {
		return fmt.Errorf("use client certificate: %w", err)
	}
	if last := t.current.Swap(&next); last != nil {
		utilnet.CloseIdleConnectionsFor(*last)
	}
	return nil
}

// Config is for clients that use the Transport.
func (t *Transport) Config() *rest.Config {
	return &rest.Config{
		Host: t.base.Host, APIPath: t.base.APIPath, UserAgent: t.base.UserAgent,
		Timeout: t.base.Timeout, QPS: t.base.QPS, Burst: t.base.Burst, Transport: t,
	}
}
