package landscape

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/local/clouddaemon"
	"hortus.dev/hortus/local/clouddaemon/cleanup"
)

// NewDownCommand returns 'hortus down'.
func NewDownCommand() *cobra.Command {
	var o Options
	command := &cobra.Command{
		Use:   "down",
		Short: "Remove the landscape of this machine without a trace",
		Long: `Remove the landscape of this machine: machines, networks, processes and files. What was built stays ('make clean'
removes that). It works in whatever state the landscape is, and twice.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.Out = command.OutOrStdout()
			return Down(command.Context(), o)
		},
	}
	o.addFlags(command)
	return command
}

// Down removes the landscape. It continues after an error, so that as little as possible is left, and returns all
// errors. It is refused while an Up or another Down works on the same state folder.
func Down(ctx context.Context, o Options) error {
	if err := o.absolute(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("not root: removing the landscape needs the rights that made it; run it as root, for instance with sudo")
	}
	unlock, err := lockState(o.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	p := &Progress{Out: o.Out, Clock: clock.RealClock{}}
	return errors.Join(
		p.Step(ctx, "host processes are gone", func(ctx context.Context) error { return stopSupervisor(ctx, o.paths()) }),
		p.Step(ctx, "machines and networks are gone", func(ctx context.Context) error {
			return cleanup.Run(ctx, cleanup.Options{
				StateDir: o.StateDir, RunDir: o.RunDir, Containerd: clouddaemon.DefaultHostContainerd(o.StateDir, o.RunDir).Socket,
			})
		}),
		p.Step(ctx, "files are gone", func(context.Context) error {
			if err := os.RemoveAll(o.RunDir); err != nil {
				return fmt.Errorf("remove %s: %w", o.RunDir, err)
			}
			return removeState(o.StateDir)
		}),
	)
}
