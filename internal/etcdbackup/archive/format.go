package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// Version of the format. Readers refuse newer ones.
const Version = 1

// ErrDamaged marks objects that are truncated or corrupted.
var ErrDamaged = errors.New("backup object is damaged")

// ErrForeign marks objects that belong to another cluster.
var ErrForeign = errors.New("backup object belongs to another cluster")

// Header is known when writing begins.
type Header struct {
	FormatVersion int        `json:"formatVersion"`
	Kind          chain.Kind `json:"kind"`
	Epoch         int64      `json:"epoch"`
	// Identity is the prefix in the store under which the object was written; it identifies the cluster even after its
	// deletion.
	Identity string `json:"identity"`
	// ClusterID and MemberID are etcd's, in hexadecimal.
	ClusterID string `json:"clusterID"`
	MemberID  string `json:"memberID"`
	// First and Last are the revisions of the object's name.
	First int64 `json:"firstRevision"`
	Last  int64 `json:"lastRevision"`
	// EtcdVersion of the server.
	EtcdVersion string    `json:"etcdVersion"`
	Created     time.Time `json:"created"`
}

// Trailer is known when writing ends.
type Trailer struct {
	// SHA256 of everything before the trailer, in hexadecimal. Set by the Writer.
	SHA256 string `json:"sha256"`
	// Bytes before the trailer, uncompressed. Set by the Writer.
	Bytes int64 `json:"bytes"`
	// Events in a delta. Set by the Writer.
	Events int64 `json:"events,omitempty"`
	// Hash of the keys, for full snapshots; nil when etcd could not compute it.
	Hash *Hash `json:"hash,omitempty"`
}

// Hash is etcd's HashKV: a checksum of all revisions up to Revision that a compaction at CompactRevision leaves.
type Hash struct {
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"`
	Hash            uint32 `json:"hash"`
}

// Record types.
const (
	typeHeader  = 'H'
	typeData    = 'D'
	typeEvent   = 'E'
	typeLease   = 'L'
	typeTrailer = 'T'
)

const (
	// maxRecord is more than any etcd request can be in practice; its own default limit is 1.5 MiB. It bounds what a
	// damaged length can make a reader allocate.
	maxRecord = 64 << 20
	// maxData is the size of the pieces of a database file: a few pages, so that buffers stay small.
	maxData = 64 << 10
	// window bounds the memory of compressing and decompressing; more gains little on Kubernetes objects.
	window = 1 << 20
)

const (
	revisionLength  = 17 // Main revision, underscore, sub revision.
	tombstoneLength = revisionLength + 1
	tombstoneMark   = 't'
)

// AppendEvent appends the record of one event to buf. sub is the event's place within its revision, from 0.
func AppendEvent(buf []byte, deleted bool, kv *mvccpb.KeyValue, sub int64) ([]byte, error) {
	var key [tombstoneLength]byte
	binary.BigEndian.PutUint64(key[:], uint64(kv.ModRevision))
	key[8] = '_'
	binary.BigEndian.PutUint64(key[9:], uint64(sub))
	n := revisionLength
	if deleted {
		// A tombstone is stored with its key only; watch events add the revision.
		kv, key[revisionLength], n = &mvccpb.KeyValue{Key: kv.Key}, tombstoneMark, tombstoneLength
	}
	size := kv.Size()
	buf = append(buf, typeEvent)
	buf = binary.AppendUvarint(buf, uint64(1+n+size))
	buf = append(append(buf, byte(n)), key[:n]...)
	start := len(buf)
	buf = append(buf, make([]byte, size)...)
	if _, err := kv.MarshalToSizedBuffer(buf[start:]); err != nil {
		return nil, fmt.Errorf("encode event of revision %d: %w", kv.ModRevision, err)
	}
	return buf, nil
}

// AppendEntry appends the record of an entry of etcd's key bucket, as Reader returns it.
func AppendEntry(buf, revision, value []byte) []byte {
	buf = append(buf, typeEvent)
	buf = binary.AppendUvarint(buf, uint64(1+len(revision)+len(value)))
	buf = append(append(buf, byte(len(revision))), revision...)
	return append(buf, value...)
}

// AppendLease appends the record of a lease that events of the delta refer to.
func AppendLease(buf []byte, id, ttlSeconds int64) []byte {
	buf = append(buf, typeLease, 16)
	buf = binary.BigEndian.AppendUint64(buf, uint64(id))
	return binary.BigEndian.AppendUint64(buf, uint64(ttlSeconds))
}
