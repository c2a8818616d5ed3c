package clouddaemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rclone/gofakes3"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	api "hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/fabric"
	"hortus.dev/hortus/local/clouddaemon/nameserver"
	"hortus.dev/hortus/local/clouddaemon/proxy"
	"hortus.dev/hortus/local/clouddaemon/registry"
)

// Config configures a Cloud.
type Config struct {
	// Dir is the directory of everything the cloud keeps, usually <state dir>/cloud.
	Dir string
	// Region and Zones are names for clients; the first zone is the default.
	Region string
	Zones  []string
	// Public is the public network, a /16: .0.1 is the host, .1.0-.7.255 are networks, .8.0-.255.254 load balancers.
	Public netip.Prefix
	// Listen are the addresses of the HTTPS API.
	Listen []string
	// DNSListen is the address of the DNS server; empty means none.
	DNSListen string
	// Layout is the directory of the OCI image layout that the registry serves; empty means none.
	Layout string
	// MakeImage makes the images that the layout lacks; see [registry.Registry]. Nil means that none are made.
	MakeImage func(ctx context.Context, name string) error
	// MachineTypes are the sizes on offer. Nil means DefaultMachineTypes.
	MachineTypes []api.MachineType
	// NewDriver makes the driver; running are the instances that ran when the daemon ended.
	NewDriver func(running []string) (driver.Driver, error)
	Fabric    fabric.Fabric
	// RealNetworks is true when the fabric makes networks for real. Otherwise load balancers only listen on loopback
	// addresses, and only if Public is a loopback range.
	RealNetworks bool
	// NoSync speeds up writes; a crash of the host may then lose the state.
	NoSync bool

	Clock clock.WithTicker // Nil means the real one.
	Rand  io.Reader        // Nil means crypto/rand.
	Log   *slog.Logger     // Nil means the default one.
}

// Cloud is the daemon. Make it with New, then call Run.
type Cloud struct {
	cfg    Config
	clock  clock.WithTicker
	log    *slog.Logger
	store  *store
	driver driver.Driver
	fabric fabric.Fabric
	proxy  *proxy.Proxy
	dns    *nameserver.Server
	images *registry.Registry
	// imageKey is the key from which the registry passwords of instances are derived.
	imageKey []byte
	s3       *gofakes3.GoFakeS3
	queue    workqueue.TypedRateLimitingInterface[key]

	uploads uploads

	machineTypes map[string]api.MachineType
	ca           []byte // PEM.
	dnsAddress   string
	endpoint     string // Base URL instances reach the API and the registry at.
}

const gib = 1 << 30

// DefaultMachineTypes returns the machine types that a cloud offers by default.
func DefaultMachineTypes() []api.MachineType {
	return []api.MachineType{
		{Name: "small", CPU: 2, MemoryBytes: 2 * gib, Architecture: runtime.GOARCH},
		{Name: "medium", CPU: 2, MemoryBytes: 4 * gib, Architecture: runtime.GOARCH},
		{Name: "large", CPU: 4, MemoryBytes: 8 * gib, Architecture: runtime.GOARCH},
		{Name: "xlarge", CPU: 8, MemoryBytes: 16 * gib, Architecture: runtime.GOARCH},
	}
}

const (
	// retryMin and retryMax bound the pause after a failed reconcile: quick, since the usual cause is a containerd that is
	// just starting.
	retryMin = 100 * time.Millisecond
	retryMax = 15 * time.Second
)

// New opens the state below cfg.Dir. Run must be called afterwards, or Close.
func New(cfg Config) (*Cloud, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.MachineTypes == nil {
		cfg.MachineTypes = DefaultMachineTypes()
	}
	if len(cfg.Zones) == 0 || cfg.Region == "" {
		return nil, errors.New("--region, --zones: required (a region and at least one zone)")
	}
	if err := checkPublicPrefix(cfg.Public); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cloud directory: %w", err)
	}
	store, err := openStore(filepath.Join(cfg.Dir, "cloud.db"), cfg.NoSync)
	if err != nil {
		return nil, err
	}
	c := &Cloud{
		cfg: cfg, clock: cfg.Clock, log: cfg.Log, store: store, fabric: cfg.Fabric,
		machineTypes: map[string]api.MachineType{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryMin, retryMax)),
	}
	for _, t := range cfg.MachineTypes {
		c.machineTypes[t.Name] = t
	}
	var running []string
	for _, i := range store.instances.sorted(func(i instance) bool { return i.State == api.StateRunning }) {
		running = append(running, i.ID)
	}
	if c.driver, err = cfg.NewDriver(running); err != nil {
		return nil, fmt.Errorf("make instance driver: %w", err)
	}
	c.proxy = proxy.New(c.dialTarget)
	c.dns = &nameserver.Server{Zone: zone{c.store}}
	c.s3 = c.newS3()
	if cfg.Layout != "" {
		if c.imageKey, err = imageKey(filepath.Join(cfg.Dir, "registry.key"), cfg.Rand); err != nil {
			return nil, err
		}
		c.images = registry.New(cfg.Layout)
		c.images.Make = cfg.MakeImage
	}
	return c, nil
}

// Close releases what New opened. Run does it itself.
func (c *Cloud) Close() error {
	c.queue.ShutDown()
	c.proxy.Close()
	return c.store.close()
}

const idBytes = 5 // 40 bits: no collisions in the life of a local cloud, and short enough for interface names.

// newID returns a new ID for which taken returns false.
func (c *Cloud) newID(prefix string, taken func(string) bool) (string, error) {
	for {
		b := make([]byte, idBytes)
		if _, err := io.ReadFull(c.cfg.Rand, b); err != nil {
			return "", fmt.Errorf("read random bytes: %w", err)
		}
		if id := prefix + hex.EncodeToString(b); !taken(id) {
			return id, nil
		}
	}
}

// path returns a path below the cloud's directory.
func (c *Cloud) path(parts ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, parts...)...)
}
