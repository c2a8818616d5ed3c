//go:build linux

// Package command is the command line of the local cloud: `hortus cloud`.
package command

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/output"
	"hortus.dev/hortus/local/cloud"
)

const (
	defaultStateDir = "/var/lib/hortus"
	defaultRunDir   = "/run/hortus"
	// defaultContainerd is the socket of a landscape's containerd.
	defaultContainerd = defaultRunDir + "/containerd.sock"
	// Environment variables that stand in for flags.
	envEndpoint  = "HORTUS_CLOUD_ENDPOINT"
	envAccessKey = "HORTUS_CLOUD_ACCESS_KEY"
	envSecretKey = "HORTUS_CLOUD_SECRET_KEY"
	envCAFile    = "HORTUS_CLOUD_CA_FILE"
)

// client holds the flags for the endpoint of the cloud and the credentials of the caller.
type client struct {
	stateDir, endpoint, accessKey, secretKey, caFile string
	output                                           string
}

// NewCommand returns `hortus cloud`.
func NewCommand() *cobra.Command {
	c := &client{}
	command := &cobra.Command{
		Use:   "cloud",
		Short: "Serve, inspect and break the local cloud",
		Long: `The local cloud stands in for a public one on a single machine.

The commands find it by flags, by the environment variables ` + envEndpoint + `, ` + envAccessKey + `,
` + envSecretKey + ` and ` + envCAFile + `, or by the administrator's file that the daemon keeps in its state directory.`,
	}
	f := command.PersistentFlags()
	f.StringVar(&c.stateDir, "state-dir", defaultStateDir, "directory of the landscape's state")
	f.StringVar(&c.endpoint, "endpoint", "", "base URL of the cloud")
	f.StringVar(&c.accessKey, "access-key", "", "access key")
	f.StringVar(&c.secretKey, "secret-key", "", "secret key")
	f.StringVar(&c.caFile, "ca-file", "", "file with the certificate authority of the endpoint")
	command.AddCommand(newServeCommand(&c.stateDir), newCleanupCommand(&c.stateDir))
	for _, sub := range append(c.resourceCommands(), c.newFaultsCommand(), c.newBucketsCommand(), c.newAboutCommand(),
		c.newEventsCommand()) {
		command.AddCommand(sub)
	}
	return command
}

// connect makes a client from flags, environment and the administrator's file, in this order.
func (c *client) connect() (*cloud.Client, error) {
	cfg := cloud.Config{
		Endpoint:  cmp.Or(c.endpoint, os.Getenv(envEndpoint)),
		AccessKey: cmp.Or(c.accessKey, os.Getenv(envAccessKey)),
		SecretKey: cmp.Or(c.secretKey, os.Getenv(envSecretKey)),
	}
	if caFile := cmp.Or(c.caFile, os.Getenv(envCAFile)); caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		cfg.CA = string(data)
	}
	if cfg.Endpoint == "" || cfg.AccessKey == "" || cfg.SecretKey == "" {
		admin, err := cloud.LoadConfig(cloud.AdminFile(c.stateDir))
		if err != nil {
			return nil, fmt.Errorf("no cloud found: give --endpoint, --access-key and --secret-key, or --state-dir: %w", err)
		}
		cfg.Endpoint = cmp.Or(cfg.Endpoint, admin.Endpoint)
		cfg.CA = cmp.Or(cfg.CA, admin.CA)
		if cfg.AccessKey == "" {
			cfg.AccessKey, cfg.SecretKey = admin.AccessKey, admin.SecretKey
		}
	}
	return cloud.New(cfg)
}

// addOutputFlag adds -o to a command.
func (c *client) addOutputFlag(command *cobra.Command) {
	output.AddFlag(command, &c.output, "table", "wide", "json", "yaml")
}
