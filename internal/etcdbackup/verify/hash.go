package verify

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/maphash"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"

	"hortus.dev/hortus/internal/etcdbackup/archive"
)

// entry is a revision in the key bucket.
type entry struct{ main, sub int64 }

func parse(key []byte) (e entry, tombstone bool, err error) {
	if len(key) < 17 || key[8] != '_' {
		return entry{}, false, errors.New("the key bucket has an invalid key")
	}
	return entry{int64(binary.BigEndian.Uint64(key)), int64(binary.BigEndian.Uint64(key[9:]))}, mvcc.IsTombstone(key), nil
}

// keyOf reads the key out of an encoded mvccpb.KeyValue; it is the first field.
func keyOf(value []byte) []byte {
	if len(value) == 0 { // The entry that a restore moves the revision ahead with.
		return nil
	}
	field, kind, n := protowire.ConsumeTag(value)
	if n < 0 || field != 1 || kind != protowire.BytesType {
		return nil
	}
	key, n := protowire.ConsumeBytes(value[n:])
	if n < 0 {
		return nil
	}
	return key
}

// comparable reports whether a checksum can be computed from a database file, which lacks the revisions that a later
// compaction has removed. For the revision of its last compaction, etcd returns a checksum from before it.
func comparable(tx *bolt.Tx, h *archive.Hash) bool {
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		value := tx.Bucket(schema.Meta.Name()).Get(name)
		if len(value) >= 8 && int64(binary.BigEndian.Uint64(value)) > max(h.CompactRevision, 0) {
			return false
		}
	}
	return true
}

// hashKV computes the result of etcd's HashKV at a revision, after a compaction, from a database file that may be
// compacted less. It also counts the keys that exist at the revision. Etcd does the same with an index of all keys in
// memory; here 8 bytes per key and 16 per unchanged one are enough.
func hashKV(tx *bolt.Tx, compacted, revision int64) (sum uint32, keys int64, err error) {
	bucket := tx.Bucket(schema.Key.Name())
	seen := map[uint64]struct{}{}
	seed := maphash.MakeSeed()
	// kept are the newest revisions of existing keys up to the compaction, newest first; older ones are gone after it.
	var kept []entry
	cursor := bucket.Cursor()
	var after [17]byte
	binary.BigEndian.PutUint64(after[:], uint64(revision)+1)
	after[8] = '_'
	previous := cursor.Prev
	if k, _ := cursor.Seek(after[:]); k == nil {
		previous = cursor.Last
	}
	for k, v := previous(); k != nil; k, v = cursor.Prev() {
		e, tombstone, err := parse(k)
		if err != nil {
			return 0, 0, err
		}
		id := maphash.Bytes(seed, keyOf(v))
		if _, known := seen[id]; known {
			continue
		}
		seen[id] = struct{}{}
		if tombstone {
			continue
		}
		if len(v) > 0 {
			keys++
		}
		if e.main <= compacted {
			kept = append(kept, e)
		}
	}
	anyKept := keys > 0 || len(kept) > 0
	clear(seen)

	hash := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	hash.Write(schema.Key.Name())
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		e, tombstone, err := parse(k)
		switch {
		case err != nil:
			return 0, 0, err
		case e.main > revision:
			return hash.Sum32(), keys, nil
		case e.main <= compacted && anyKept:
			if n := len(kept); n == 0 || kept[n-1] != e {
				continue
			}
			kept = kept[:len(kept)-1]
		}
		if e.main == compacted && tombstone {
			continue
		}
		hash.Write(k)
		hash.Write(v)
	}
	return hash.Sum32(), keys, nil
}
