package restore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/verify"
	"go.uber.org/zap"
)

// lockTimeout is how long a database file may be locked by an etcd that is just ending.
const lockTimeout = 5 * time.Second

// errInUse means that an etcd runs with the data directory.
var errInUse = errors.New("the data directory is in use by a running etcd")

// Inspect checks a data directory without changing it. After two starts without a healthy etcd it reads everything.
func Inspect(dataDir string) (DataState, error) {
	m, err := readMarker(dataDir)
	if err != nil {
		return "", err
	}
	state, _, _, err := inspect(dataDir, m.Starts >= deepAfter)
	return state, err
}

// inspect checks a data directory without changing it. Unless deep, it reads only a few pages.
func inspect(dataDir string, deep bool) (state DataState, problem string, revision int64, err error) {
	entries, err := os.ReadDir(filepath.Join(dataDir, "member"))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return DataMissing, "", 0, nil
	case err != nil:
		return "", "", 0, fmt.Errorf("read data directory: %w", err)
	}
	if logs, _ := filepath.Glob(filepath.Join(datadir.ToWALDir(dataDir), "*.wal")); len(logs) == 0 {
		return DataBroken, "it has no write-ahead log", 0, nil
	}
	file := datadir.ToBackendFileName(dataDir)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return DataBroken, "it has no database file", 0, nil
	}
	revision, err = fileRevision(file)
	if errors.Is(err, berrors.ErrTimeout) {
		return "", "", 0, errInUse
	}
	if err == nil && deep {
		err = deepCheck(dataDir, file)
	}
	if err != nil {
		return DataBroken, err.Error(), 0, nil
	}
	return DataFine, "", revision, nil
}

// fileRevision reads the last revision in a database file.
func fileRevision(file string) (revision int64, err error) {
	err = readDatabase(file, func(tx *bolt.Tx) error {
		revision, err = lastRevision(tx)
		return err
	})
	return revision, err
}

// readDatabase opens a database file for reading. Damage that shows as a panic or a fault of the mapped memory, as in
// a file that is too short, becomes an error.
func readDatabase(file string, read func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("database file is corrupt: %v", r)
		}
	}()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return fmt.Errorf("open database file: %w", err)
	}
	defer db.Close()
	return db.View(func(tx *bolt.Tx) error {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("open database file: %w", err)
		}
		if tx.Size() > info.Size() {
			return fmt.Errorf("database file is truncated: %d of %d bytes", info.Size(), tx.Size())
		}
		return read(tx)
	})
}

// lastRevision is the revision that etcd would begin with: that of the last entry, or of a compaction that has left no
// entries.
func lastRevision(tx *bolt.Tx) (int64, error) {
	keys, meta := tx.Bucket(schema.Key.Name()), tx.Bucket(schema.Meta.Name())
	if keys == nil || meta == nil {
		return 0, errors.New("database file has no buckets of etcd")
	}
	revision := int64(1) // That of an empty etcd.
	if last, _ := keys.Cursor().Last(); last != nil {
		if len(last) < 8 {
			return 0, fmt.Errorf("database file has an invalid key: %q", last)
		}
		revision = max(revision, int64(binary.BigEndian.Uint64(last)))
	}
	return max(revision, compacted(meta)), nil
}

// compacted is the revision of the last compaction, be it finished or only planned; 0 for none.
func compacted(meta *bolt.Bucket) int64 {
	revision := int64(0)
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if value := meta.Get(name); len(value) >= 8 {
			revision = max(revision, int64(binary.BigEndian.Uint64(value)))
		}
	}
	return revision
}

// deepCheck reads everything: all pages of the database file and the whole log.
func deepCheck(dataDir, file string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("data directory is inconsistent: %v", r)
		}
	}()
	if err := checkDatabase(file); err != nil {
		return err
	}
	err = verify.Verify(verify.Config{Logger: zap.NewNop(), DataDir: dataDir})
	if err != nil && strings.Contains(err.Error(), "must be <= WAL.HardState.commit") {
		err = checkLog(dataDir, file)
	}
	if err != nil {
		return fmt.Errorf("data directory is inconsistent: %w", err)
	}
	return nil
}

// checkLog makes sure that the log has everything that the database file has applied. If etcd was killed, the log may
// not show yet that the last entries are committed, since only later entries show that.
func checkLog(dataDir, file string) error {
	dir := datadir.ToWALDir(dataDir)
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil || len(snapshots) == 0 {
		return fmt.Errorf("read snapshots of the log: %w", err)
	}
	newest := snapshots[len(snapshots)-1]
	log, err := wal.OpenForRead(zap.NewNop(), dir, newest)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer log.Close()
	_, _, entries, err := log.ReadAll()
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	last := newest.Index
	if n := len(entries); n > 0 {
		last = max(last, entries[n-1].Index)
	}
	return readDatabase(file, func(tx *bolt.Tx) error {
		value := tx.Bucket(schema.Meta.Name()).Get(schema.MetaConsistentIndexKeyName)
		if len(value) < 8 {
			return errors.New("database file has no index")
		}
		if index := binary.BigEndian.Uint64(value); index > last {
			return fmt.Errorf("the database file has applied entry %d, but the log ends with entry %d", index, last)
		}
		return nil
	})
}

// checkDatabase reads all pages of a database file.
func checkDatabase(file string) error {
	return readDatabase(file, checkPages)
}

// ReadDatabase checks all pages of a database file, then passes it to read.
func ReadDatabase(file string, read func(*bolt.Tx) error) error {
	return readDatabase(file, func(tx *bolt.Tx) error {
		if err := checkPages(tx); err != nil {
			return err
		}
		return read(tx)
	})
}

func checkPages(tx *bolt.Tx) error {
	var first error
	for err := range tx.Check() { // The loop must reach the end, since the check holds a goroutine.
		if first == nil {
			first = fmt.Errorf("database file is corrupt: %w", err)
		}
	}
	return first
}
