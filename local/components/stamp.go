package components

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stampFile lies next to the programs that it describes.
const stampFile = ".stamp.json"

// stamp records the inputs and the results of the build of a component.
type stamp struct {
	// Inputs is the hash of everything that determines the programs.
	Inputs  string    `json:"inputs"`
	BuiltAt time.Time `json:"builtAt"`
	// Seconds the build took.
	Seconds float64 `json:"seconds"`
	// Sizes of the programs in bytes. A program of another size was tampered with or truncated.
	Sizes map[string]int64 `json:"sizes"`
}

// compiler identifies the toolchain that builds the programs.
type compiler struct {
	GoVersion string `json:"goVersion"`
	Arch      string `json:"arch"`
}

// hashInputs covers the wrapper module (and with go.sum the content of every library), the flags and the compiler.
func hashInputs(source fs.FS, c Component, with compiler) (string, error) {
	h := sha256.New()
	// Needs is left out: it says what must be there, not what is built.
	settings, err := json.Marshal(struct {
		Version, Folder string
		Programs        []Program
		Language        Language
		Arguments       []string
		CGO             bool
		Compiler        compiler
	}{c.Version, c.Folder, c.Programs, c.Language, c.goArguments(), c.CGO, with})
	if err != nil {
		return "", fmt.Errorf("encode settings of %s: %w", c, err)
	}
	fmt.Fprintf(h, "%d\n%s", len(settings), settings)
	err = fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error { // Walks in lexical order.
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "\n%s %d\n%s", path, len(content), content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read source of %s: %w", c, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// State says whether a component has to be built.
type State string

const (
	Missing State = "missing" // Never built, or a program is gone.
	Stale   State = "stale"   // Built from other inputs.
	Built   State = "built"
)

// readState compares the stamp in dir with the inputs and with the files next to it. The stamp is nil when missing.
func readState(dir, inputs string) (State, *stamp, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stampFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Missing, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	s := &stamp{}
	if json.Unmarshal(raw, s) != nil {
		return Missing, nil, nil // A broken stamp is as good as none.
	}
	for name, size := range s.Sizes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Size() != size {
			return Missing, nil, nil
		}
	}
	if s.Inputs != inputs {
		return Stale, s, nil
	}
	return Built, s, nil
}

// LastBuild returns the version of a component that was built last, and how long that took; "" if none has been built.
func LastBuild(artifacts, name string) (version string, took time.Duration, err error) {
	var last time.Time
	for _, c := range All() {
		if c.Name != name {
			continue
		}
		_, s, err := readState(c.Dir(artifacts), "")
		if err != nil {
			return "", 0, fmt.Errorf("read stamp of %s: %w", c, err)
		}
		if s != nil && s.BuiltAt.After(last) {
			version, took, last = c.Version[1:], time.Duration(s.Seconds*float64(time.Second)), s.BuiltAt
		}
	}
	return version, took, nil
}

func writeStamp(dir string, s *stamp) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stampFile)
	if err := os.WriteFile(path+".new", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
