// Command release builds the files of a release from the commit of the work tree in which it runs.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var output, programs string
	cmd := &cobra.Command{
		Use:   "release VERSION",
		Short: "Build programs, image, charts, bill of materials and checksums of a release",
		Long: "Build the files of a release from the commit of the work tree. The same commit and version of Go result in " +
			"the same bytes.",
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := release.ReadSource(cmd.Context(), ".")
			if err != nil {
				return err
			}
			folder, err := os.MkdirTemp("", "hortus-release-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder) //nolint:errcheck // A temporary folder.
			if source, err = source.Checkout(cmd.Context(), filepath.Join(folder, "source")); err != nil {
				return err
			}
			version := args[0]
			if output == "" {
				output = filepath.Join(".build", "release", version)
			}
			compiler := release.Compiler{Source: source, Version: version, Folder: programs}
			result, err := release.Build(cmd.Context(), release.Options{
				Version: version, Source: source, Output: output, Compile: compiler.Compile, Progress: cmd.ErrOrStderr(),
			})
			if err != nil {
				return err
			}
			cmd.Printf("%d files are in %s; the image is %s\n", len(result.Files)+1, output, result.Image)
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "folder for the files (default .build/release/VERSION)")
	cmd.Flags().StringVar(&programs, "programs", filepath.Join(".build", "release-programs"),
		"folder for compiled programs")
	return cmd
}
