package nodeagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/nodeagent/change"
	"hortus.dev/hortus/internal/nodeagent/config"
)

const (
	lastAppliedFile = config.Dir + "/last-applied-osc.yaml"
	changesFile     = config.Dir + "/last-computed-osc-changes.yaml"
)

// store keeps the applied configuration and the remaining changes on disk.
type store struct{ root string }

// lastApplied is the content of lastAppliedFile.
type lastApplied struct {
	Checksum string         `json:"checksum"`
	Config   *change.Config `json:"config"`
}

// loadApplied returns the configuration that was applied last, or nil.
func (s store) loadApplied() (*lastApplied, error) { return load[lastApplied](s, lastAppliedFile) }

func (s store) saveApplied(a *lastApplied) error { return s.save(lastAppliedFile, a) }

// loadChanges returns unfinished work, or nil.
func (s store) loadChanges() (*change.Changes, error) { return load[change.Changes](s, changesFile) }

func (s store) saveChanges(c *change.Changes) error { return s.save(changesFile, c) }

func (s store) deleteChanges() error {
	if err := os.Remove(filepath.Join(s.root, changesFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove record of changes: %w", err)
	}
	return nil
}

func load[T any](s store, path string) (*T, error) {
	content, err := os.ReadFile(filepath.Join(s.root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load state: %w", err)
	}
	value := new(T)
	if err := yaml.Unmarshal(content, value); err != nil {
		return nil, fmt.Errorf("load state from %s: %w", path, err)
	}
	return value, nil
}

func (s store) save(path string, value any) error {
	content, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	// Inline files may hold secrets.
	if _, err := writeFile(filepath.Join(s.root, path), content, 0o600); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}
