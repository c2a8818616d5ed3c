package clouddaemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hortus.dev/hortus/internal/pki"
	api "hortus.dev/hortus/local/cloud"
)

const (
	// renewBefore is how long before its expiry the server certificate is replaced, checked with every connection.
	renewBefore = 60 * 24 * time.Hour
	// shutdownWait bounds the wait for requests in progress; long polls are cut.
	shutdownWait = 100 * time.Millisecond
	headerWait   = 10 * time.Second
)

// Run serves until ctx ends. ready, if not nil, is called once with the base URL of the API.
func (c *Cloud) Run(ctx context.Context, ready func(endpoint string)) error {
	defer c.Close()
	if err := c.fabric.Start(ctx); err != nil {
		return fmt.Errorf("prepare the host's network: %w", err)
	}
	// Before the API is served: what is being uploaded has no record yet.
	if err := errors.Join(c.removeLooseObjects(), os.RemoveAll(c.path(uploadsDir))); err != nil {
		c.log.Error("Removing leftovers of objects failed", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { c.driver.Run(ctx); return nil })
	if err := c.startDNS(ctx, group); err != nil {
		return err
	}
	endpoint, err := c.startAPI(ctx, group)
	if err != nil {
		return err
	}
	group.Go(func() error { return c.carryOut(ctx) })
	c.log.Info("Cloud is ready", "endpoint", endpoint, "driver", c.driver.Name(), "region", c.cfg.Region)
	if ready != nil {
		ready(endpoint)
	}
	return group.Wait()
}

// carryOut removes leftovers and then carries out the records. Leftovers are removed first, but an error there
// (containerd may still be starting) must not stop the rest: their removal is retried at the next resync.
func (c *Cloud) carryOut(ctx context.Context) error {
	c.enqueueAll()
	go func() {
		for ctx.Err() == nil {
			err := c.removeLeftovers(ctx)
			if err == nil {
				return
			}
			c.log.Error("Removing leftovers failed", "error", err)
			select {
			case <-ctx.Done():
			case <-c.clock.After(retryMax):
			}
		}
	}()
	c.runReconcilers(ctx)
	return nil
}

func (c *Cloud) startDNS(ctx context.Context, group *errgroup.Group) error {
	if c.cfg.DNSListen == "" {
		return nil
	}
	address := make(chan string, 1)
	failed := make(chan error, 1)
	group.Go(func() error {
		err := c.dns.ListenAndServe(ctx, c.cfg.DNSListen, func(a string) { address <- a })
		failed <- err
		return err
	})
	select {
	case a := <-address:
		c.dnsAddress = a
		if host, port, err := net.SplitHostPort(a); err == nil && port == "53" {
			c.dnsAddress = host
		}
		return nil
	case err := <-failed:
		return err
	}
}

// startAPI opens the ports of the API, writes the administrator's file and serves.
func (c *Cloud) startAPI(ctx context.Context, group *errgroup.Group) (endpoint string, err error) {
	var listeners []net.Listener
	for _, address := range c.cfg.Listen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return "", fmt.Errorf("open API port: %w", err)
		}
		listeners = append(listeners, l)
	}
	if len(listeners) == 0 {
		return "", errors.New("--listen: required (at least one address)")
	}
	certificate, err := c.serverCertificates()
	if err != nil {
		return "", err
	}
	c.endpoint = "https://" + listeners[0].Addr().String()
	if err := c.writeAdminFile(c.endpoint); err != nil {
		return "", err
	}
	server := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: headerWait, TLSConfig: &tls.Config{
			GetCertificate: certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		},
		ErrorLog:    slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // Clients that give up, and port scans.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	for _, l := range listeners {
		group.Go(func() error {
			if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve API: %w", err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		wait, cancel := context.WithTimeout(context.Background(), shutdownWait)
		defer cancel()
		if server.Shutdown(wait) != nil {
			server.Close()
		}
		return nil
	})
	return c.endpoint, nil
}

// serverCertificates loads the CA, made at the first start, and returns a function that returns the server certificate
// for a connection. The function replaces the certificate before its expiry.
func (c *Cloud) serverCertificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	ca, err := c.loadCA()
	if err != nil {
		return nil, err
	}
	c.ca = ca.CertPEM
	current, err := c.serverCertificate(ca)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		if endsSoon(current.Leaf, ca, c.clock.Now()) {
			next, err := c.serverCertificate(ca)
			if err != nil {
				c.log.Error("Cannot renew the server certificate", "notAfter", current.Leaf.NotAfter, "error", err)
			} else {
				current = next
			}
		}
		return current, nil
	}, nil
}

// serverCertificate loads a server certificate that fits the addresses, or makes one.
func (c *Cloud) serverCertificate(ca *pki.CA) (*tls.Certificate, error) {
	certFile, keyFile := c.path("server.crt"), c.path("server.key")
	ips := c.serverIPs()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil && certificateFits(pair.Leaf, ca, ips, c.clock.Now()) {
		return &pair, nil
	}
	issued, err := ca.Issue(pki.Request{
		CommonName: "hortus-cloud", DNSNames: []string{"localhost"}, IPs: ips, Usage: pki.Server,
		Validity: 365 * 24 * time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("issue server certificate: %w", err)
	}
	if err := errors.Join(writeFile(keyFile, issued.KeyPEM), writeFile(certFile, issued.CertPEM)); err != nil {
		return nil, err
	}
	pair, err = tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	return &pair, err
}

// endsSoon reports whether a certificate is to be replaced. One that expires together with its CA stays, since its
// replacement would expire at the same time.
func endsSoon(leaf *x509.Certificate, ca *pki.CA, now time.Time) bool {
	return now.Add(renewBefore).After(leaf.NotAfter) && leaf.NotAfter.Before(ca.Cert().NotAfter)
}

func certificateFits(leaf *x509.Certificate, ca *pki.CA, ips []net.IP, now time.Time) bool {
	if leaf == nil || leaf.CheckSignatureFrom(ca.Cert()) != nil || endsSoon(leaf, ca, now) {
		return false
	}
	for _, ip := range ips {
		if !slices.ContainsFunc(leaf.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// serverIPs are the addresses clients may use: those listened on, the host on the public network, and loopback.
func (c *Cloud) serverIPs() []net.IP {
	ips := []net.IP{net.ParseIP(addressAt(c.cfg.Public, gatewayOffset).String()), net.IPv4(127, 0, 0, 1)}
	for _, l := range c.cfg.Listen {
		host, _, err := net.SplitHostPort(l)
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsUnspecified() && !slices.ContainsFunc(ips, ip.Equal) {
			ips = append(ips, ip)
		}
	}
	return ips
}

func (c *Cloud) loadCA() (*pki.CA, error) {
	certFile, keyFile := c.path("ca.crt"), c.path("ca.key")
	certPEM, err := os.ReadFile(certFile)
	if errors.Is(err, os.ErrNotExist) {
		ca, err := pki.NewCA("hortus-cloud-ca", c.clock)
		if err != nil {
			return nil, fmt.Errorf("make CA: %w", err)
		}
		// The certificate is written last: it marks the pair as complete.
		return ca, errors.Join(writeFile(keyFile, ca.KeyPEM), writeFile(certFile, ca.CertPEM))
	}
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	return pki.LoadCA(certPEM, keyPEM, c.clock)
}

// writeAdminFile makes sure that there is a file with valid administrator credentials and the current endpoint.
func (c *Cloud) writeAdminFile(endpoint string) error {
	path := c.path("admin.json")
	cfg, err := api.LoadConfig(path)
	var known credentials
	c.store.view(func() { known, _ = c.store.credentials.get(cfg.AccessKey) })
	if err != nil || !known.Admin || known.SecretHash != secretHash(cfg.SecretKey) {
		made, err := c.newCredentials(adminAccount, true)
		if err != nil {
			return fmt.Errorf("make administrator credentials: %w", err)
		}
		cfg.AccessKey, cfg.SecretKey = made.AccessKey, made.SecretKey
	}
	cfg.Endpoint, cfg.CA = endpoint, string(c.ca)
	data, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return fmt.Errorf("encode administrator file: %w", err)
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile writes a file so that it is there as a whole or not at all, readable by its owner only.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
