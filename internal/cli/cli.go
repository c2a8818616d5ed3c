// Package cli is the command line of Hortus: the list of all components and all commands for users.
package cli

import (
	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/apiserver"
	"hortus.dev/hortus/internal/apiserverproxy"
	"hortus.dev/hortus/internal/bench"
	"hortus.dev/hortus/internal/cli/backup"
	"hortus.dev/hortus/internal/cli/garden"
	"hortus.dev/hortus/internal/cli/kubeconfig"
	"hortus.dev/hortus/internal/cli/move"
	"hortus.dev/hortus/internal/cli/ssh"
	"hortus.dev/hortus/internal/controllermanager"
	"hortus.dev/hortus/internal/diff"
	etcdbackup "hortus.dev/hortus/internal/etcdbackup/command"
	etcdmember "hortus.dev/hortus/internal/etcdmember/command"
	"hortus.dev/hortus/internal/explain"
	"hortus.dev/hortus/internal/gardenlet"
	"hortus.dev/hortus/internal/gateway"
	"hortus.dev/hortus/internal/lint"
	"hortus.dev/hortus/internal/machinecontrol"
	"hortus.dev/hortus/internal/nodeagent"
	"hortus.dev/hortus/internal/plan"
	"hortus.dev/hortus/internal/resourcemanager"
	"hortus.dev/hortus/internal/scheduler"
	"hortus.dev/hortus/internal/validate"
	"hortus.dev/hortus/internal/version"
	"hortus.dev/hortus/internal/versions"
	cloud "hortus.dev/hortus/local/clouddaemon/command"
	"hortus.dev/hortus/local/components"
	"hortus.dev/hortus/local/images"
	"hortus.dev/hortus/local/landscape"
	"hortus.dev/hortus/local/provider"
	"hortus.dev/hortus/local/provider/cloudcontroller"
	"hortus.dev/hortus/local/provider/csi/node"
	"hortus.dev/hortus/local/provider/machine"
	"hortus.dev/hortus/local/provider/networkagent"
	"hortus.dev/hortus/local/provider/volume"
)

// ExitCode is an error with its own exit code, so that pipelines can distinguish outcomes.
type ExitCode interface {
	error
	Code() int
}

// NewCommand returns the root command.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "hortus",
		Short:         "Kubernetes clusters as a service",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddGroup(
		&cobra.Group{ID: "people", Title: "Commands for people:"},
		&cobra.Group{ID: "landscape", Title: "A landscape on one machine:"},
		&cobra.Group{ID: "parts", Title: "Parts, run by the charts:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	add("people",
		backup.NewCommand(),
		diff.NewCommand(),
		explain.NewCommand(),
		garden.NewCommand(),
		kubeconfig.NewCommand(),
		lint.NewCommand(),
		move.NewMoveCommand(),
		move.NewDrainCommand(),
		plan.NewCommand(),
		scheduler.NewScheduleCommand(),
		ssh.NewCommand(),
		validate.NewCommand(),
		versions.NewCommand(),
	)
	add("landscape",
		landscape.NewUpCommand(),
		landscape.NewDownCommand(),
		landscape.NewStatusCommand(),
		landscape.NewHostCommand(),
		cloud.NewCommand(),
		bench.NewCommand(),
		components.NewCommand(),
		images.NewCommand(),
	)
	add("parts",
		apiserver.NewCommand(),
		controllermanager.NewCommand(),
		scheduler.NewCommand(),
		gardenlet.NewCommand(),
		resourcemanager.NewCommand(),
		gateway.NewCommand(),
		apiserverproxy.NewCommand(),
		etcdmember.NewCommand(),
		etcdbackup.NewCommand(),
		nodeagent.NewCommand(),
		provider.NewCommand(),
		machinecontrol.NewCommand(),
		machine.NewCommand(),
		cloudcontroller.NewCommand(),
		networkagent.NewCommand(),
		volume.NewCommand(),
		node.NewCommand(),
	)
	return root
}
