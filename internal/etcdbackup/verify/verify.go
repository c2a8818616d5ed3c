package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"k8s.io/utils/clock"

	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/internal/etcdbackup/restore"
	"hortus.dev/hortus/internal/etcdbackup/store"
)

// Options of a verification.
type Options struct {
	Store    restore.Source
	Identity string
	// TempDir is the folder for the database file; empty for the system's folder.
	TempDir string
	// Expected is a checksum that etcd itself computed, at any revision that the chain reaches; nil means that only the
	// one in the full snapshot is compared.
	Expected *archive.Hash
	Clock    clock.PassiveClock
	Progress io.Writer
}

// Chain restores a chain and checks everything that is known about it: hashes of all objects, revisions without a gap,
// every page of the database file, and the checksum of the keys.
func Chain(ctx context.Context, c chain.Chain, o Options) (*store.Verification, error) {
	dir, err := os.MkdirTemp(o.TempDir, "etcd-verify-")
	if err != nil {
		return nil, fmt.Errorf("create folder for the verification: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "db")
	out := o.Progress
	if out == nil {
		out = io.Discard
	}
	built, err := restore.Build(ctx, o.Store, c.Objects(), chain.Target{}, o.Identity, file, restore.Progress{Out: out,
		Clock: o.Clock})
	switch {
	case err != nil:
		return nil, err
	case len(built.Skipped) > 0:
		return nil, fmt.Errorf("%w: %s", archive.ErrDamaged, built.Skipped[0])
	case built.Revision < c.Last():
		return nil, fmt.Errorf("%w: it ends at revision %d, not %d", archive.ErrDamaged, built.Revision, c.Last())
	}
	v := &store.Verification{Full: c.Full, Revision: built.Revision, Time: o.Clock.Now().UTC()}
	err = restore.ReadDatabase(file, func(tx *bolt.Tx) error {
		for _, want := range []*archive.Hash{built.Trailer.Hash, o.Expected} {
			if want == nil || want.Revision > built.Revision || !comparable(tx, want) {
				continue
			}
			got, _, err := hashKV(tx, want.CompactRevision, want.Revision)
			if err != nil {
				return err
			}
			if got != want.Hash {
				return fmt.Errorf("%w: checksum of the keys at revision %d is %08x, not %08x as in etcd",
					archive.ErrDamaged, want.Revision, got, want.Hash)
			}
			v.HashCompared = true
		}
		_, keys, err := hashKV(tx, 0, built.Revision)
		v.Keys = keys
		return err
	})
	return v, err
}

// Object reads an object to its end, which proves that it was stored as it was written. Nothing is kept.
func Object(ctx context.Context, from restore.Source, o chain.Object) error {
	in, err := from.Open(ctx, o.Name())
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := archive.NewReader(in)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
}
