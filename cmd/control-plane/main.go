// Command control-plane has the commands of hortus that run once for each Shoot, alongside its API server. A process
// keeps in memory what its program initializes: hortus initializes 15 MiB, most of it for other commands, this program
// 4 MiB.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/machinecontrol"
	"hortus.dev/hortus/internal/resourcemanager"
	"hortus.dev/hortus/internal/version"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/machine"
)

func main() {
	root := &cobra.Command{
		Use:           "control-plane",
		Short:         "Parts of the control plane of a Shoot",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		resourcemanager.NewCommand(),
		machinecontrol.NewCommand(),
		machine.NewCommand(),
		cloudcontroller.NewCommand(),
	)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}
