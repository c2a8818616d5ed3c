// Package metrics decides how processes serve their metrics.
package metrics

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Server serves metrics at the address. On the loopback interface they need no credentials. Elsewhere they are served
// with TLS, with a certificate that the process generates, to those who may get the path /metrics: by the token of the
// request, which the API server reviews (TokenReview, SubjectAccessReview). The address "0" serves none.
func Server(address string, apiServer *rest.Config) (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: address}
	private, err := loopback(address)
	if err != nil || private {
		return options, err
	}
	options.SecureServing = true
	// The manager passes the connection that it uses itself, which may be to another cluster.
	options.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		client, err := rest.HTTPClientFor(apiServer)
		if err != nil {
			return nil, fmt.Errorf("connect to the API server that authenticates readers of metrics: %w", err)
		}
		return filters.WithAuthenticationAndAuthorization(apiServer, client)
	}
	return options, nil
}

// loopback reports whether only processes of this host reach the address. An address without a host is every one.
func loopback(address string) (bool, error) {
	if address == "0" {
		return true, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("address of metrics: %w (host:port, :port, or 0 for none)", err)
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback(), nil
}
