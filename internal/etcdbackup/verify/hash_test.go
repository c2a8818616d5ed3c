package verify

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"hortus.dev/hortus/internal/etcdbackup/archive"
	"hortus.dev/hortus/internal/etcdbackup/etcdtest"
	"hortus.dev/hortus/internal/etcdbackup/restore"
)

// save writes etcd's snapshot to a file, without the checksum at its end.
func save(t *testing.T, client *clientv3.Client) string {
	t.Helper()
	from, err := client.SnapshotWithVersion(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(from.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, data[:len(data)-32], 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHashIsThatOfEtcd compares hashes with the real etcd, at several revisions, before and after compactions, for a
// file from the same time and for one that was not compacted.
func TestHashIsThatOfEtcd(t *testing.T) {
	server := etcdtest.New(t)
	client := server.Start()
	history := etcdtest.NewHistory(t, client, 7)
	history.Write(300)
	uncompacted := save(t, client)
	last := server.Revision()
	compared := [2]int{}
	for _, compact := range []int64{0, last / 3, last / 2, last - 5, last} {
		if compact > 0 {
			if _, err := client.Compact(context.Background(), compact, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
		}
		files := []string{uncompacted, save(t, client)}
		for revision := max(compact, 2); revision <= last; revision += 7 {
			want, err := client.HashKV(context.Background(), server.ClientURL, revision)
			if err != nil {
				t.Fatal(err)
			}
			for i, file := range files {
				err := restore.ReadDatabase(file, func(tx *bolt.Tx) error {
					if !comparable(tx, &archive.Hash{Revision: revision, CompactRevision: want.CompactRevision}) {
						return nil
					}
					compared[i]++
					got, keys, err := hashKV(tx, want.CompactRevision, revision)
					if state := history.States[revision]; got != want.Hash || state != nil && keys != int64(len(state)) {
						t.Errorf("file %d, compacted at %d, revision %d: hash %08x of %d keys, want %08x of %d",
							i, want.CompactRevision, revision, got, keys, want.Hash, len(state))
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if compared[0] < 50 || compared[1] < 50 {
		t.Errorf("only %v hashes were compared", compared)
	}
}
