//go:build linux

package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hortus.dev/hortus/local/clouddaemon/driver/container"
)

// exitCode makes this program end with the exit code of the program it ran.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(e)) }

// Code returns the exit code.
func (e exitCode) Code() int { return int(e) }

// newExecCommand returns `instances exec`: a look into a machine, for people on the cloud's host.
func (c *client) newExecCommand() *cobra.Command {
	var socket string
	command := &cobra.Command{
		Use:   "exec ID|NAME [-- COMMAND [ARG...]]",
		Short: "Run a command inside an instance, by default a shell",
		Long: `Run a command inside an instance, by default a shell. It goes through the host's containerd, so it works as root on the
host of a cloud with the container driver, whether the machine's network is well or not.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			id, err := instanceResource.resolve(command.Context(), api, args[0])
			if err != nil {
				return err
			}
			d, err := container.New(container.Options{Address: socket})
			if err != nil {
				return err
			}
			program := args[1:]
			if len(program) == 0 {
				program = []string{"/bin/sh"}
			}
			tty := term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
			code, err := d.Exec(command.Context(), id, program, tty)
			if err == nil && code != 0 {
				return exitCode(code)
			}
			return err
		},
	}
	command.Flags().StringVar(&socket, "containerd", defaultContainerd, "socket of the host's containerd")
	return command
}
