package keeper

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"hortus.dev/hortus/internal/tunnel/certs"
)

const (
	dialTimeout = 10 * time.Second
	// keepAlive detects an etcd that has vanished without closing its connections.
	keepAlive = 30 * time.Second
	// grpcBuffer is less than gRPC's 32 KiB each way: there is one connection, mostly idle.
	grpcBuffer = 8 << 10
)

// Connect returns a client of one etcd member, which uses the newest certificates for every connection. It does not
// wait for etcd.
func Connect(endpoint string, files *certs.Files) (*clientv3.Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("--etcd-endpoint: invalid value: %q (such as https://localhost:2379)", endpoint)
	}
	config := clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: dialTimeout, DialKeepAliveTime: keepAlive,
		DialKeepAliveTimeout: dialTimeout,
		Logger:               zap.NewNop(),
		DialOptions:          []grpc.DialOption{grpc.WithReadBufferSize(grpcBuffer), grpc.WithWriteBufferSize(grpcBuffer)},
	}
	if u.Scheme == "https" {
		if err := files.Load(); err != nil {
			return nil, err
		}
		config.TLS = following(files, u.Hostname())
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return client, nil
}

// following returns a configuration that uses the newest files for every connection, the authority's too.
func following(files *certs.Files, serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, err := files.Client(serverName)
			if err != nil {
				return nil, err
			}
			return &now.Certificates[0], nil
		},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, with an authority that may change.
		VerifyConnection: func(state tls.ConnectionState) error {
			now, err := files.Client(serverName)
			if err != nil {
				return err
			}
			if len(state.PeerCertificates) == 0 {
				return errors.New("the server has no certificate")
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: serverName, Roots: now.RootCAs,
				Intermediates: between})
			return err
		},
	}
}
