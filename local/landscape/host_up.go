package landscape

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/local/images"
)

const (
	// cloudStart bounds how long the cloud may take to answer after its start.
	cloudStart = 30 * time.Second
	// accountLandscape owns what the landscape itself is made of, accountDev what the first project makes.
	accountLandscape = "landscape"
	accountDev       = "dev"
)

// ensureCloud starts containerd and the cloud, and returns a client for the landscape's own account.
func ensureCloud(ctx context.Context, o Options) (*cloud.Client, *cloud.About, error) {
	paths := o.paths()
	supervisor, err := ensureSupervisor(ctx, paths)
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(o.StateDir, "host", "containerd.toml")
	if err := os.WriteFile(config, []byte(clouddaemon.DefaultHostContainerd(o.StateDir, o.RunDir).Render()),
		0o600); err != nil {
		return nil, nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	bin, err := linkHostPrograms(o)
	if err != nil {
		return nil, nil, err
	}
	containerd := service{
		description: "containerd of the landscape", environment: []string{"PATH=" + bin + ":" + os.Getenv("PATH")},
		command: []string{filepath.Join(bin, "containerd"), "--config", config},
	}
	if err := ensureUnit(ctx, supervisor, paths, containerdUnit, containerd.unitFile()); err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("find the hortus binary: %w", err)
	}
	daemon := service{
		description: "local cloud", after: containerdUnit, environment: buildEnvironment(os.LookupEnv),
		command: []string{self, "cloud", "serve", "--state-dir", o.StateDir, "--images", images.LayoutDir(o.Artifacts),
			"--build-artifacts", o.Artifacts, "--build-components", o.Components, "--build-module", o.Module,
			"--containerd", clouddaemon.DefaultHostContainerd(o.StateDir, o.RunDir).Socket},
	}
	if err := ensureUnit(ctx, supervisor, paths, cloudUnit, daemon.unitFile()); err != nil {
		return nil, nil, err
	}
	admin, err := waitForCloud(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; see %s", err, filepath.Join(paths.logs(), cloudUnit+".log"))
	}
	own, err := ensureAccount(ctx, o, admin, accountLandscape)
	if err != nil {
		return nil, nil, err
	}
	c, err := cloud.New(*own)
	if err != nil {
		return nil, nil, err
	}
	about, err := c.About(ctx)
	return c, about, err
}

// buildEnvironment returns the environment variables of this process that configure the Go tool, for the cloud, which
// builds Kubernetes versions on first use.
func buildEnvironment(lookup func(string) (value string, set bool)) []string {
	var variables []string
	for _, name := range []string{
		"PATH", "HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOPROXY", "GONOSUMDB", "GOSUMDB", "GOFLAGS", "GOTOOLCHAIN",
		"TMPDIR",
	} {
		if value, set := lookup(name); set {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}

// linkHostPrograms makes one folder with the programs that containerd looks up in its PATH.
func linkHostPrograms(o Options) (string, error) {
	bin := filepath.Join(o.StateDir, "host", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	for _, name := range []string{"containerd", "runc"} {
		selected, err := components.Select(components.All(), name)
		if err != nil {
			return "", err
		}
		for _, program := range selected[0].Programs {
			link := filepath.Join(bin, program.Name)
			if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
				return "", err
			}
			if err := os.Symlink(selected[0].Path(o.Artifacts, program.Name), link); err != nil {
				return "", fmt.Errorf("link %s: %w", program.Name, err)
			}
		}
	}
	return bin, nil
}

// waitForCloud waits until the cloud answers its administrator.
func waitForCloud(ctx context.Context, o Options) (*cloud.Client, error) {
	var admin *cloud.Client
	err := retry(ctx, cloudStart, func(ctx context.Context) error {
		config, err := cloud.LoadConfig(cloud.AdminFile(o.StateDir))
		if err != nil {
			return err
		}
		if admin, err = cloud.New(config); err != nil {
			return err
		}
		_, err = admin.About(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the cloud does not answer: %w", err)
	}
	return admin, nil
}

// ensureAccount returns credentials of an account of the cloud, made at the first call and kept.
func ensureAccount(ctx context.Context, o Options, admin *cloud.Client, account string) (*cloud.Config, error) {
	return loadOrMake(filepath.Join(o.StateDir, "landscape", "accounts", account+".json"), func() (*cloud.Config, error) {
		base, err := cloud.LoadConfig(cloud.AdminFile(o.StateDir))
		if err != nil {
			return nil, err
		}
		credentials, err := admin.CreateCredentials(ctx, account, false)
		if err != nil {
			return nil, fmt.Errorf("create credentials of account %q: %w", account, err)
		}
		base.AccessKey, base.SecretKey = credentials.AccessKey, credentials.SecretKey
		return &base, nil
	})
}
