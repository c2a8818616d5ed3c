package manifest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// maxFileSize is three times the size in bytes of 20,000 Shoots with their status, as kubectl prints them.
const maxFileSize = 512 << 20

// stdinName stands for standard input in problems.
const stdinName = "stdin"

// extensions are the file name extensions of manifests in directories; case does not matter. Files given by name may
// have any extension.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads the manifests in files, in directories, recursively and sorted by name, and in standard input for the path
// "-". It calls visit for each manifest, concurrently, and returns the results in the order of the manifests. For
// documents that cannot be parsed it calls visit with an object without a kind and with a problem of type Syntax.
func Read[T any](paths []string, stdin io.Reader, visit func(*Object) T) ([]T, error) {
	var pieces []piece
	for _, path := range paths {
		found, err := readPath(path, stdin)
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		pieces = append(pieces, found...)
	}
	return visitAll(pieces, visit), nil
}

func readPath(path string, stdin io.Reader) ([]piece, error) {
	if path == "-" {
		return readFrom(stdinName, stdin, maxFileSize)
	}
	files, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	var pieces []piece
	for _, name := range files {
		found, err := readFile(name, maxFileSize)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, found...)
	}
	return pieces, nil
}

// filesOf returns a file, or the manifests in a directory.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	root := strings.TrimRight(path, string(filepath.Separator)) + string(filepath.Separator) // Follows a symbolic link.
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(extensions, strings.ToLower(filepath.Ext(name))) {
			files = append(files, name)
		}
		return err
	})
	return files, err
}

func readFile(name string, limit int64) ([]piece, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return readFrom(name, f, limit)
	}
	data := make([]byte, info.Size()) // Allocated once.
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return split(name, data), nil
}

func readFrom(name string, in io.Reader, limit int64) ([]piece, error) {
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s: too large (at most %d MiB)", name, limit>>20)
	}
	return split(name, data), nil
}

// visitAll parses the pieces on all processors and keeps their order.
func visitAll[T any](pieces []piece, visit func(*Object) T) []T {
	results, broken := make([][]T, len(pieces)), make([]bool, len(pieces))
	var g errgroup.Group
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(pieces); i += workers {
				objects := pieces[i].objects()
				broken[i] = pieces[i].whole != nil && objects.broken()
				results[i] = each(objects, visit)
				pieces[i].text = nil // Releases the text before the whole fleet is in memory.
			}
			return nil
		})
	}
	_ = g.Wait() // No function returns an error.
	var all []T
	for i := 0; i < len(pieces); {
		end := i + 1
		for whole := pieces[i].whole; whole != nil && end < len(pieces) && pieces[end].whole == whole; {
			end++
		}
		if slices.Contains(broken[i:end], true) {
			// An item that cannot be parsed may be part of a text that only looks like items. Parsing the whole text decides.
			all = append(all, each(pieces[i].whole.objects(), visit)...)
		} else {
			all = append(all, slices.Concat(results[i:end]...)...)
		}
		i = end
	}
	return all
}
