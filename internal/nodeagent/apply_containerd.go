package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
	"hortus.dev/hortus/internal/nodeagent/containerd"
)

const (
	// probeTimeout and probePeriod are the timing of readiness probes of registries (contract of the field).
	probeTimeout = time.Second
	probePeriod  = 2 * time.Second
	// probeLimit bounds the wait in one attempt to apply the configuration; the next one starts soon after.
	probeLimit = time.Minute
)

func hostsFile(upstream string) string {
	return filepath.Join(config.ContainerdCertsDir, filepath.Base(upstream), "hosts.toml")
}

// configureContainerd patches the runtime's own configuration. It comes before files, since images are pulled for them.
func (r *round) configureContainerd(ctx context.Context) error {
	if !r.changes.Containerd && !r.changes.RestartContainerd || r.next.CRI == nil {
		r.changes.Containerd = false
		return nil
	}
	path := r.path(config.ContainerdConfigFile)
	current, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		current, err = []byte("version = 3\n"), nil // Everything else is containerd's default.
	}
	if err != nil {
		return fmt.Errorf("read configuration of containerd: %w", err)
	}
	patched, changed, err := containerd.Patch(current, r.next.CRI)
	if err != nil {
		return fmt.Errorf("configure containerd: %w", err)
	}
	if err := os.MkdirAll(r.path(config.ContainerdConfDir), 0o755); err != nil {
		return fmt.Errorf("make directory for configuration of containerd: %w", err)
	}
	if changed {
		r.changes.RestartContainerd = true // Recorded before anything is written that requires it.
		if err := r.save(); err != nil {
			return err
		}
		if _, err := writeFile(path, patched, 0o644); err != nil {
			return err
		}
	}
	if r.changes.RestartContainerd {
		if err := r.Units.Restart(ctx, config.ContainerdUnitName); err != nil {
			return fmt.Errorf("restart containerd: %w", err)
		}
	}
	r.changes.Containerd, r.changes.RestartContainerd = false, false
	return r.save()
}

// writeRegistries writes hosts.toml of the registries with or without a probe, and removes obsolete ones. Containerd
// reads these files at each pull, so it need not be restarted.
func (r *round) writeRegistries(ctx context.Context, probed bool) error {
	for _, upstream := range slices.Clone(r.changes.WriteRegistries) {
		registry := r.next.Registry(upstream)
		if probe := registry.ReadinessProbe != nil && *registry.ReadinessProbe; probe != probed {
			continue
		} else if probe && r.ProbeRegistry != nil {
			if err := r.ProbeRegistry(ctx, *registry); err != nil {
				return err
			}
		}
		if _, err := writeFile(r.path(hostsFile(upstream)), containerd.Hosts(*registry), 0o644); err != nil {
			return fmt.Errorf("configure registry %s: %w", upstream, err)
		}
		r.changes.WriteRegistries = without(r.changes.WriteRegistries, upstream)
		if err := r.save(); err != nil {
			return err
		}
	}
	if !probed {
		return nil
	}
	for _, upstream := range slices.Clone(r.changes.DeleteRegistries) {
		if err := os.RemoveAll(filepath.Dir(r.path(hostsFile(upstream)))); err != nil {
			return fmt.Errorf("remove registry %s: %w", upstream, err)
		}
		r.changes.DeleteRegistries = without(r.changes.DeleteRegistries, upstream)
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// ProbeRegistry waits until all hosts of a registry answer, with any status.
func ProbeRegistry(ctx context.Context, registry extensionsv1alpha1.RegistryConfig) error {
	client := &http.Client{Timeout: probeTimeout}
	for _, host := range registry.Hosts {
		var last error
		err := wait.PollUntilContextTimeout(ctx, probePeriod, probeLimit, true, func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, host.URL, nil)
			if err != nil {
				return false, err
			}
			response, err := client.Do(request)
			if err != nil {
				last = err
				return false, nil
			}
			return true, response.Body.Close()
		})
		if err != nil {
			return fmt.Errorf("wait for host %s of registry %s: %w", host.URL, registry.Upstream, errors.Join(err, last))
		}
	}
	return nil
}
