package fleet

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/garden"
	"hortus.dev/hortus/internal/manifest"
)

// Source is the source of a command's Fleet: manifests, or a garden.
type Source struct {
	Options   Options
	Access    garden.Access
	Files     []string
	Namespace string // Only Shoots of this namespace are read; empty for all.
}

// AddFlags registers the flags of the source.
func (s *Source) AddFlags(command *cobra.Command) {
	s.Access.AddFlags(command.Flags())
	command.Flags().StringSliceVarP(&s.Files, "filename", "f", nil,
		"read manifests from files, folders or - (standard input) instead of a garden")
}

// AddNamespaceFlag registers the flag that restricts the Shoots to a namespace.
func (s *Source) AddNamespaceFlag(command *cobra.Command) {
	command.Flags().StringVarP(&s.Namespace, "namespace", "n", "", "only Shoots of this namespace; empty means all")
}

// Read reads the Fleet for a command. It prints warnings about problems in manifests that can be ignored.
func (s *Source) Read(command *cobra.Command) (*Fleet, error) {
	if len(s.Files) > 0 {
		f, err := s.ReadFiles(command, s.Files)
		if err == nil && s.Namespace != "" {
			f.Shoots = slices.DeleteFunc(f.Shoots, func(shoot corev1beta1.Shoot) bool {
				return shoot.Namespace != s.Namespace
			})
		}
		return f, err
	}
	config, err := s.Access.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := NewClient(config)
	if err != nil {
		return nil, err
	}
	return FromGarden(command.Context(), c, s.Namespace, s.Options)
}

// ReadFiles reads a Fleet from manifests other than those of --filename.
func (s *Source) ReadFiles(command *cobra.Command, paths []string) (*Fleet, error) {
	f, warnings, err := FromManifests(paths, command.InOrStdin(), s.Options)
	warn(command.ErrOrStderr(), warnings)
	return f, err
}

func warn(out io.Writer, warnings []manifest.Finding) {
	for _, line := range manifest.List(warnings) {
		fmt.Fprintln(out, "warning:", line)
	}
}
