// Package certs builds TLS configurations from mounted certificate files and follows their rotation: every handshake
// uses the newest files, without a restart.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// recheckAfter bounds how long a rotated file stays unnoticed. A kubelet takes up to a minute to update a mounted
// Secret, so ten seconds add nothing a user would see, and spare three stat calls per connection.
const recheckAfter = 10 * time.Second

// Files names a certificate, its key and the CA bundle that signs the peers' certificates. All are PEM files.
type Files struct {
	CA, Cert, Key string
	// Clock paces the checks for changed files; nil is the real clock.
	Clock clock.PassiveClock

	mu      sync.Mutex
	checked time.Time
	stamp   string
	cert    *tls.Certificate
	pool    *x509.CertPool
}

// Load reads the files and reports the first problem, so that a wrong mount shows at start.
func (f *Files) Load() error {
	_, _, err := f.current()
	return err
}

// Recheck makes the next connection check whether the files have changed.
func (f *Files) Recheck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = time.Time{}
}

// Server returns a configuration that presents the certificate and demands a client certificate signed by the CA.
func (f *Files) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, pool, err := f.current()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				Certificates: []tls.Certificate{*cert},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    pool,
				NextProtos:   []string{"http/1.1"},
			}, nil
		},
	}
}

// Client returns a configuration for one connection to serverName.
func (f *Files) Client(serverName string) (*tls.Config, error) {
	cert, pool, err := f.current()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		ServerName:   serverName,
		Certificates: []tls.Certificate{*cert},
		RootCAs:      pool,
	}, nil
}

// current returns the loaded files, read again when they changed. While a rotation has replaced only some of them the
// last good set stays in use.
func (f *Files) current() (*tls.Certificate, *x509.CertPool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Clock == nil {
		f.Clock = clock.RealClock{}
	}
	now := f.Clock.Now()
	if f.cert != nil && now.Sub(f.checked) < recheckAfter {
		return f.cert, f.pool, nil
	}
	stamp, err := f.fingerprint()
	if err == nil && (f.cert == nil || stamp != f.stamp) {
		err = f.read(stamp)
	}
	if err != nil && f.cert == nil {
		return nil, nil, err
	}
	f.checked = now
	return f.cert, f.pool, nil
}

func (f *Files) fingerprint() (string, error) {
	stamp := ""
	for _, name := range []string{f.CA, f.Cert, f.Key} {
		info, err := os.Stat(name)
		if err != nil {
			return "", fmt.Errorf("stat certificate file: %w", err)
		}
		stamp += fmt.Sprintf("%d %d\n", info.ModTime().UnixNano(), info.Size())
	}
	return stamp, nil
}

func (f *Files) read(stamp string) error {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return fmt.Errorf("load certificate %q: %w", f.Cert, err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return fmt.Errorf("read CA bundle: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return fmt.Errorf("read CA bundle %q: %w", f.CA, errors.New("no certificate in it"))
	}
	f.cert, f.pool, f.stamp = &cert, pool, stamp
	return nil
}
