package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// marker records, in a file next to the data directory, the last use of the directory.
type marker struct {
	// Epoch of the owner that started etcd with it.
	Epoch int64 `json:"epoch"`
	// Target is the point in time that was restored on request, so that a restart does not restore it again.
	Target string `json:"target,omitempty"`
	// Requests are the IDs of restores that were carried out.
	Requests []string `json:"requests,omitempty"`
	// Branch is the ID of the restore that the data directory began with; empty if there was none.
	Branch string `json:"branch,omitempty"`
	// Starts counts starts of etcd since it was last seen healthy.
	Starts int `json:"starts"`
}

// Paths of files next to the data directory.
func markerPath(dataDir string) string   { return dataDir + ".epoch" }
func workPath(dataDir string) string     { return dataDir + ".restoring" }
func previousPath(dataDir string) string { return dataDir + ".previous" }

func readMarker(dataDir string) (marker, error) {
	var m marker
	data, err := os.ReadFile(markerPath(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read marker of the data directory: %w", err)
	}
	return m, nil
}

func writeMarker(dataDir string, m marker) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode marker: %w", err)
	}
	temporary := markerPath(dataDir) + ".tmp"
	if err := errors.Join(os.MkdirAll(filepath.Dir(dataDir), 0o700), writeSynced(temporary, data)); err != nil {
		return fmt.Errorf("write marker of the data directory: %w", err)
	}
	if err := errors.Join(os.Rename(temporary, markerPath(dataDir)), syncDir(filepath.Dir(dataDir))); err != nil {
		return fmt.Errorf("write marker of the data directory: %w", err)
	}
	return nil
}

// MarkHealthy records that etcd has come up with the data directory, so that the next start needs no deep check.
func MarkHealthy(dataDir string) error {
	m, err := readMarker(dataDir)
	if err != nil || m.Starts == 0 {
		return err
	}
	m.Starts = 0
	return writeMarker(dataDir, m)
}

// MarkJoined records that a data directory is filled by the members that this one has joined.
func MarkJoined(dataDir string, epoch int64, branches []chain.Branch) error {
	m := marker{Epoch: epoch}
	if b, ok := chain.NewestBranch(branches); ok {
		m.Branch = b.ID
	}
	return writeMarker(dataDir, m)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
