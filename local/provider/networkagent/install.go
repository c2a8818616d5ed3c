package networkagent

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

// installPlugin puts the CNI plugin into the directory, in one step: the container runtime may start it at any time. A
// plugin with the same content stays, others in the directory are left alone.
func installPlugin(source, dir string) error {
	target := filepath.Join(dir, hook.PluginName)
	want, err := fileSum(source)
	if err != nil {
		return fmt.Errorf("read CNI plugin: %w", err)
	}
	if have, err := fileSum(target); err == nil && bytes.Equal(have, want) && isExecutable(target) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of CNI plugins: %w", err)
	}
	if err := replaceFile(source, target); err != nil {
		return fmt.Errorf("install CNI plugin: %w", err)
	}
	return nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o111 == 0o111
}

// fileSum reads in small pieces: the agent should not keep memory of the size of the plugin.
func fileSum(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

func replaceFile(source, target string) (err error) {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	_, err = io.Copy(out, in)
	// Synced, so that a machine that fails has a whole plugin afterwards.
	if err := errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), target)
}
