//go:build linux

package command

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/timeslice"
	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/driver"
	"hortus.dev/hortus/local/clouddaemon/driver/container"
	"hortus.dev/hortus/local/clouddaemon/driver/simulated"
	"hortus.dev/hortus/local/clouddaemon/fabric"
	"hortus.dev/hortus/local/clouddaemon/fabric/linux"
	"hortus.dev/hortus/local/clouddaemon/registry"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/local/images"
)

const machineRepository = "hortus.dev/machine"

// serveOptions are the flags of `hortus cloud serve`.
type serveOptions struct {
	driver     string
	listen     []string
	dnsListen  string
	region     string
	zones      []string
	public     string
	images     string
	containerd string
	// Folders of a build of images on first use.
	artifacts, components, module string
	runc                          string
	bootDelay                     time.Duration
}

func newServeCommand(stateDir *string) *cobra.Command {
	o := serveOptions{}
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon of the local cloud",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if err := timeslice.Short(); err != nil {
				fmt.Fprintf(command.ErrOrStderr(), "connections of load balancers may wait for busy machines: %v\n", err)
			}
			cfg, err := o.config(*stateDir)
			if err != nil {
				return err
			}
			c, err := clouddaemon.New(cfg)
			if err != nil {
				return err
			}
			return c.Run(ctx, func(endpoint string) { fmt.Fprintln(command.OutOrStdout(), endpoint) })
		},
	}
	f := command.Flags()
	f.StringVar(&o.driver, "driver", "container",
		"how instances run: container (real, needs root) or simulated (no process)")
	f.StringSliceVar(&o.listen, "listen", nil,
		"addresses of the HTTPS API; default port 7443 of the public network's host and of loopback, or of loopback only for the simulated driver")
	f.StringVar(&o.dnsListen, "dns-listen", "",
		"address of the DNS server; default port 53 of the public network's host, or none for the simulated driver")
	f.StringVar(&o.region, "region", "local", "name of the region")
	f.StringSliceVar(&o.zones, "zones", []string{"local-a", "local-b", "local-c"},
		"names of the zones; the first is the default")
	f.StringVar(&o.public, "public-network", "198.18.0.0/16", "IPv4 range of the public network, 16 bits")
	f.StringVar(&o.images, "images", "", "directory of the OCI image layout with machine images and what machines pull")
	f.StringVar(&o.artifacts, "build-artifacts", "",
		"folder of built programs and images; with it, images of Kubernetes versions are built on first use")
	f.StringVar(&o.components, "build-components", "local/components", "folder with the components' source modules")
	f.StringVar(&o.module, "build-module", ".", "folder of this project's Go module")
	f.StringVar(&o.containerd, "containerd", defaultContainerd, "socket of the host's containerd")
	f.StringVar(&o.runc, "runc", "", "path of runc; default the one in containerd's PATH")
	f.DurationVar(&o.bootDelay, "boot-delay", 0, "time a simulated instance takes to boot")
	return command
}

// buildImages builds images in a process of its own, since a build takes much memory for a short time.
func (o serveOptions) buildImages(names []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the hortus binary: %w", err)
	}
	build := exec.Command(self, append([]string{
		"images", "build", "--artifacts", o.artifacts, "--components", o.components, "--module", o.module, "--hortus-binary",
		self,
	}, names...)...)
	build.Dir = o.module
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// config turns the flags into the daemon's configuration.
func (o serveOptions) config(stateDir string) (clouddaemon.Config, error) {
	public, err := netip.ParsePrefix(o.public)
	if err != nil {
		return clouddaemon.Config{}, fmt.Errorf("--public-network: %w", err)
	}
	host := public.Masked().Addr().Next()
	stateDir, err = filepath.Abs(stateDir)
	if err != nil {
		return clouddaemon.Config{}, fmt.Errorf("--state-dir: %w", err)
	}
	cfg := clouddaemon.Config{
		Dir: filepath.Join(stateDir, "cloud"), Region: o.region, Zones: o.zones, Public: public, Layout: o.images,
		Listen: o.listen, DNSListen: o.dnsListen,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if o.artifacts != "" {
		lastBuild := func(component string) (string, time.Duration, error) {
			return components.LastBuild(o.artifacts, component)
		}
		cfg.MakeImage = (&images.OnDemand{
			Build: o.buildImages, Log: cfg.Log, Clock: clock.RealClock{}, LastBuild: lastBuild,
		}).Make
	}
	switch o.driver {
	case "container":
		if o.images == "" {
			return cfg, errors.New("--images: required with the container driver")
		}
		if len(cfg.Listen) == 0 {
			cfg.Listen = []string{netip.AddrPortFrom(host, 7443).String(), "127.0.0.1:7443"}
		}
		cfg.DNSListen = cmp.Or(cfg.DNSListen, netip.AddrPortFrom(host, 53).String())
		cfg.RealNetworks = true
		cfg.Fabric = &linux.Fabric{Public: netip.PrefixFrom(host, public.Bits())}
		cfg.NewDriver = func([]string) (driver.Driver, error) {
			return container.New(container.Options{
				Address: o.containerd, Runc: o.runc, Layout: registry.New(o.images), ImageRepository: machineRepository,
			})
		}
	case "simulated":
		if len(cfg.Listen) == 0 {
			cfg.Listen = []string{"127.0.0.1:7443"}
		}
		cfg.Fabric = fabric.Plain{}
		cfg.NoSync = true
		cfg.NewDriver = func(running []string) (driver.Driver, error) {
			return simulated.New(simulated.Options{Clock: clock.RealClock{}, BootDelay: o.bootDelay, Running: running}), nil
		}
	default:
		return cfg, fmt.Errorf("--driver: unsupported value: %q (container, simulated)", o.driver)
	}
	return cfg, nil
}
