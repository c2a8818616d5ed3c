package gardenlet

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"hortus.dev/hortus/internal/gardenlet/config"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/reconnect"
)

// envImage names the image with every part of Hortus. The chart sets it to the image it runs.
const envImage = "HORTUS_IMAGE"

// NewCommand returns `gardenlet`.
func NewCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "gardenlet",
		Short: "Run the control planes of Shoots in a seed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(path)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return Run(ctx, c, hortusImage())
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "path of the GardenletConfiguration")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // The flag is defined above.
	}
	return cmd
}

func hortusImage() string {
	if name := os.Getenv(envImage); name != "" {
		return name
	}
	return image.Hortus()
}

// verbosity of the log levels; at debug, controllers say why they do nothing.
var verbosity = map[string]int{"error": 0, "info": 0, "debug": 1}

func setLogger(level string) {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity[level])))
	klog.SetLogger(logger)
	ctrl.SetLogger(logger.WithName("gardenlet"))
}

// Run runs the gardenlet. It returns when ctx ends or when an essential part fails.
func Run(ctx context.Context, c *config.GardenletConfiguration, hortusImage string) error {
	setLogger(c.LogLevel)
	probes, err := reconnect.ServeProbes(ctx, address(c.Server.HealthProbes))
	if err != nil {
		return err
	}
	defer probes.Close()
	m, err := newManager(ctx, c)
	if err != nil {
		return err
	}
	if err := m.prepareSeed(ctx); err != nil {
		return err
	}
	if err := m.addControllers(ctx, c, hortusImage); err != nil {
		return err
	}
	probes.Ready()
	if err := m.garden.Start(ctx); err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}
