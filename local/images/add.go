package images

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
)

// nobody is the ID of the user that programs of others run as.
const nobody = "65532"

// Add packs a static program as an image and puts it into the layout, from which machines of the local cloud pull it.
// It returns the reference to use: name and digest, since a tag that machines have pulled before is not pulled again.
func Add(artifacts, imageName, program string) (reference string, err error) {
	tag, err := name.NewTag(imageName, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("name: %w", err)
	}
	if tag.Name() != imageName {
		return "", fmt.Errorf("name: not complete: %q (complete is %q)", imageName, tag.Name())
	}
	if slices.Contains(Names(), imageName) {
		return "", fmt.Errorf("name: taken: %q is made by 'hortus images build'", imageName)
	}
	if err := checkStatic(program); err != nil {
		return "", err
	}
	file, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("add image %s: %w", imageName, err)
	}
	unlock, err := lockLayout(artifacts)
	if err != nil {
		return "", err
	}
	defer unlock()
	store, err := OpenStore(LayoutDir(artifacts))
	if err != nil {
		return "", err
	}
	target := filepath.Base(file)
	img, err := assemble(store, recipe{
		name: imageName, layers: [][]Entry{{{Path: target, Source: file}, temporary}},
		entrypoint: []string{"/" + target}, user: nobody,
	})
	if err != nil {
		return "", fmt.Errorf("add image %s: %w", imageName, err)
	}
	if _, err := store.Put(imageName, img); err != nil {
		return "", err
	}
	digest, err := Digest(artifacts, imageName)
	if err != nil {
		return "", err
	}
	return imageName + "@" + digest, store.Prune(pruneAge, time.Now())
}

func newAddCommand(o *Options) *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME PROGRAM",
		Short: "Pack a static program of your own as an image, and print the reference to use",
		Long: `Pack a static program of your own as an image that machines of the local cloud can pull, and print the reference to
use, with its digest. NAME is a full name with a tag, such as example.com/notice:0.1.0. The program runs without root.`,
		Args:         cobra.ExactArgs(2),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			reference, err := Add(o.Artifacts, args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), reference)
			return nil
		},
	}
}
