// Package cli is the command line of Hortus: one list of every part and every command for people.
package cli

import (
	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/components"
	"hortus.dev/hortus/internal/image"
	"hortus.dev/hortus/internal/version"
	"hortus.dev/hortus/landscape"
)

// ExitCode is an error that asks for an exit code of its own, for pipelines to tell outcomes apart.
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
	add("people")
	add("landscape", landscape.NewUpCommand(), landscape.NewDownCommand(), components.NewCommand(), image.NewCommand())
	add("parts")
	return root
}
