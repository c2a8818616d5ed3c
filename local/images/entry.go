package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is one file of a layer. Exactly one of Source, Content, Symlink, Hardlink and Dir says what it is; none of them
// means an empty file.
type Entry struct {
	Path string // In the image, without a leading slash.
	// Mode holds the permission bits, plus tar's 01000 for sticky folders. 0 means 0755 for folders and sources, 0644 for
	// content.
	Mode     int64
	Source   string // File of this machine to copy, links followed.
	Content  []byte
	Symlink  string // Target of a symbolic link.
	Hardlink string // Path of an earlier entry of the same layer, of which this is another name.
	Dir      bool
}

// normalize completes entries with their parent folders and default modes, and sorts them, so that the same set of
// files always makes the same layer. Hard links come last: they need their target in place.
func normalize(entries []Entry) ([]Entry, error) {
	all := map[string]Entry{}
	for _, e := range entries {
		e.Path = path.Clean(strings.Trim(e.Path, "/"))
		if _, exists := all[e.Path]; exists {
			return nil, fmt.Errorf("layer has %s twice", e.Path)
		}
		if e.Mode == 0 {
			e.Mode = 0o644
			if e.Dir || e.Source != "" {
				e.Mode = 0o755
			}
		}
		all[e.Path] = e
	}
	for _, e := range entries {
		for dir := path.Dir(strings.Trim(e.Path, "/")); dir != "."; dir = path.Dir(dir) {
			if parent, exists := all[dir]; !exists {
				all[dir] = Entry{Path: dir, Mode: 0o755, Dir: true}
			} else if !parent.Dir {
				return nil, fmt.Errorf("layer has %s as a file and as a folder", dir)
			}
		}
	}
	sorted := make([]Entry, 0, len(all))
	for _, e := range all {
		if e.Hardlink != "" {
			target := all[e.Hardlink]
			if target.Source == "" && target.Content == nil {
				return nil, fmt.Errorf("layer has a hard link %s to %s, which is not a file of it", e.Path, e.Hardlink)
			}
			e.Mode = target.Mode // Unpacking sets the mode on the file that both names share.
		}
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b Entry) int {
		if a.Hardlink != "" != (b.Hardlink != "") {
			return cmp.Compare(len(a.Hardlink), len(b.Hardlink)) // One of the lengths is 0.
		}
		return cmp.Compare(a.Path, b.Path)
	})
	return sorted, nil
}

// epoch is the time of every file and image: the digest of an image depends on its content, not on the time of its
// build.
var epoch = time.Unix(0, 0).UTC()

// writeTar writes normalized entries as an uncompressed layer.
func writeTar(w io.Writer, entries []Entry) error {
	tw := tar.NewWriter(w)
	for _, e := range entries {
		if err := writeEntry(tw, e); err != nil {
			return fmt.Errorf("add %s to layer: %w", e.Path, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, e Entry) error {
	header := &tar.Header{Name: e.Path, Mode: e.Mode, ModTime: epoch, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
	var content io.Reader = bytes.NewReader(e.Content)
	switch {
	case e.Dir:
		header.Name, header.Typeflag = e.Path+"/", tar.TypeDir
	case e.Symlink != "":
		header.Mode, header.Typeflag, header.Linkname = 0o777, tar.TypeSymlink, e.Symlink
	case e.Hardlink != "":
		header.Typeflag, header.Linkname = tar.TypeLink, e.Hardlink
	case e.Source != "":
		f, err := os.Open(e.Source)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		header.Size, content = info.Size(), f
	default:
		header.Size = int64(len(e.Content))
	}
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	_, err := io.Copy(tw, content)
	return err
}
