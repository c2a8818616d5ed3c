package apiserver

import (
	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// NewCommand returns the command apiserver.
func NewCommand() *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:   "apiserver",
		Short: "Serve the garden's API: Shoots, Seeds, CloudProfiles and their relatives",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := options.Validate(); err != nil {
				return err
			}
			return Run(genericapiserver.SetupSignalContext(), options)
		},
	}
	options.AddFlags(command.Flags())
	return command
}
