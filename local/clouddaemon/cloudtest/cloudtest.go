// Package cloudtest runs a whole simulated cloud inside a test: real API, real DNS and load balancers on loopback
// addresses, instances without processes. It needs no root.
package cloudtest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/simulated"
	"hortus.dev/hortus/local/clouddaemon/fabric"
)

// startWait bounds the start of the daemon, which has nothing to wait for but a busy machine.
const startWait = 2 * time.Minute

// Options change what Start does.
type Options struct {
	// BootDelay is how long instances take to boot.
	BootDelay time.Duration
	// Layout is an OCI image layout for the registry. Empty means no registry.
	Layout string
	// MakeImage makes the images that the layout lacks. Nil means that none are made.
	MakeImage func(ctx context.Context, name string) error
	// Clock is the clock of the cloud. Nil means the real one.
	Clock clock.WithTicker
	// Log receives the daemon's log. Nil discards it.
	Log *slog.Logger
}

// Cloud is a running cloud.
type Cloud struct {
	// Client acts as administrator.
	Client *cloud.Client
	// Config is the administrator's configuration.
	Config cloud.Config
	// Driver gives a test direct access to the instances, for example to let one exit.
	Driver *simulated.Driver
	// DNS is the address of the DNS server.
	DNS string

	dir    string
	public netip.Prefix
	opts   Options
	stop   func()
}

// Start runs a cloud until the test ends.
func Start(t testing.TB, opts Options) *Cloud {
	t.Helper()
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cloud{dir: filepath.Join(t.TempDir(), "cloud"), opts: opts} // As below a state directory.
	// Linux answers on all of 127.0.0.0/8, so load balancers work without making addresses. Tests that run at the same
	// time get different ones, most of the time.
	c.public = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), 0, 0}), 16)
	c.run(t)
	t.Cleanup(func() { c.stop() })
	return c
}

// Restart ends the daemon and starts it again with the same state. The endpoint changes.
func (c *Cloud) Restart(t testing.TB) {
	t.Helper()
	c.stop()
	c.run(t)
}

// AdminFile is the path of the administrator's configuration.
func (c *Cloud) AdminFile() string { return filepath.Join(c.dir, "admin.json") }

// As returns a client with new credentials of an account, without the rights of an administrator.
func (c *Cloud) As(t testing.TB, account string) *cloud.Client {
	t.Helper()
	credentials, err := c.Client.CreateCredentials(t.Context(), account, false)
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.Config
	cfg.AccessKey, cfg.SecretKey = credentials.AccessKey, credentials.SecretKey
	client, err := cloud.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// WriteConsole writes what a container of an instance would have printed: simulated instances print nothing.
func (c *Cloud) WriteConsole(t testing.TB, instanceID, text string) {
	t.Helper()
	folder := filepath.Join(c.dir, "instances", instanceID)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "console.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *Cloud) run(t testing.TB) {
	t.Helper()
	d, err := clouddaemon.New(clouddaemon.Config{
		Dir: c.dir, Region: "local", Zones: []string{"local-a", "local-b"},
		Public: c.public, Listen: []string{"127.0.0.1:0"}, DNSListen: "127.0.0.1:0",
		Layout: c.opts.Layout, MakeImage: c.opts.MakeImage,
		Fabric: fabric.Plain{}, NoSync: true, Clock: c.opts.Clock, Log: c.opts.Log,
		NewDriver: func(running []string) (driver.Driver, error) {
			c.Driver = simulated.New(simulated.Options{Clock: c.opts.Clock, BootDelay: c.opts.BootDelay, Running: running})
			return c.Driver, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- d.Run(ctx, func(endpoint string) { ready <- endpoint }) }()
	c.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("cloud: %v", err)
		}
		c.stop = func() {}
	}
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("start cloud: %v", err)
	case <-time.After(startWait):
		t.Fatalf("the cloud did not start within %s", startWait)
	}
	if c.Config, err = cloud.LoadConfig(c.AdminFile()); err != nil {
		t.Fatal(err)
	}
	if c.Client, err = cloud.New(c.Config); err != nil {
		t.Fatal(err)
	}
	about, err := c.Client.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.DNS = about.DNS
}

// Network makes a network and returns its ID.
func (c *Cloud) Network(t testing.TB, name, cidr string) string {
	t.Helper()
	n, err := c.Client.CreateNetwork(t.Context(), cloud.CreateNetwork{Name: name, CIDR: cidr})
	if err != nil {
		t.Fatal(err)
	}
	return n.ID
}

// Eventually calls done after every event until it returns true.
func (c *Cloud) Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWait)
	defer cancel()
	since := int64(0)
	for {
		events, err := c.Client.Events(ctx, since, 200*time.Millisecond)
		if err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		since = events.Revision
		if done() {
			return
		}
	}
}
