package restore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/encoding/protowire"

	"hortus.dev/hortus/internal/etcdbackup/archive"
)

// sequentialFill is the fill level of pages; entries are only ever added at the end of the key bucket.
const sequentialFill = 0.9

// unknownTTL is for leases that had ended, or could not be read, when the delta was written. Their keys were deleted a
// little later; if they were not, they are deleted after this time.
const unknownTTL = 3600

// database is a database file that deltas are applied to.
type database struct {
	bolt *bolt.DB
	// revision is that of the last entry.
	revision int64
	// leases are those that applied events refer to, with their TTL in seconds if that is known.
	leases map[int64]int64
}

// openDatabase opens a snapshot. Nothing is synced until close: a crash starts the restore over.
func openDatabase(file string) (*database, error) {
	revision, err := fileRevision(file)
	if err != nil {
		return nil, err
	}
	db, err := bolt.Open(file, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, Timeout: lockTimeout,
		FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open database file: %w", err)
	}
	return &database{bolt: db, revision: revision, leases: map[int64]int64{}}, nil
}

// apply adds the events of a delta up to a revision (0 for all). It is all or nothing: the contents of the object
// prove right only at its end. Revisions that are there already are skipped, and a gap is an error.
func (d *database) apply(r *archive.Reader, until int64) (events int64, err error) {
	revision := d.revision
	leases := map[int64]int64{}
	err = d.bolt.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket(schema.Key.Name())
		keys.FillPercent = sequentialFill
		for {
			record, err := r.Next()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			case record.Lease != 0:
				leases[record.Lease] = record.TTL
				continue
			case record.Revision == nil:
				return fmt.Errorf("%w: a delta contains a database file", archive.ErrDamaged)
			}
			main := record.Main()
			if main <= d.revision || until > 0 && main > until {
				continue
			}
			if main != revision && main != revision+1 {
				return fmt.Errorf("%w: revision %d follows %d", archive.ErrDamaged, main, revision)
			}
			id, err := leaseOf(record.Value)
			if err != nil {
				return fmt.Errorf("%w: event of revision %d: %w", archive.ErrDamaged, main, err)
			}
			if _, known := leases[id]; id != 0 && !known {
				leases[id] = d.leases[id]
			}
			// The buffers belong to the reader; bolt keeps what it is given until the transaction ends.
			if err := keys.Put(append([]byte(nil), record.Revision...), append([]byte(nil), record.Value...)); err != nil {
				return fmt.Errorf("write revision %d: %w", main, err)
			}
			revision = main
			events++
		}
	})
	if err != nil {
		return 0, err
	}
	d.revision = revision
	for id, ttl := range leases {
		d.leases[id] = max(ttl, d.leases[id])
	}
	return events, nil
}

// leaseOf reads the lease out of an encoded mvccpb.KeyValue without decoding the rest.
func leaseOf(value []byte) (int64, error) {
	const fieldLease = 6
	for len(value) > 0 {
		field, kind, n := protowire.ConsumeTag(value)
		if n < 0 {
			return 0, protowire.ParseError(n)
		}
		value = value[n:]
		if field == fieldLease && kind == protowire.VarintType {
			id, n := protowire.ConsumeVarint(value)
			if n < 0 {
				return 0, protowire.ParseError(n)
			}
			return int64(id), nil
		}
		if n = protowire.ConsumeFieldValue(field, kind, value); n < 0 {
			return 0, protowire.ParseError(n)
		}
		value = value[n:]
	}
	return 0, nil
}

// cut removes all entries that are newer than a revision. A full snapshot holds a little more than its name says.
func (d *database) cut(until int64) error {
	if until <= 0 || d.revision <= until {
		return nil
	}
	const batch = 10000 // Bounds the memory of a transaction.
	for more := true; more; {
		err := d.bolt.Update(func(tx *bolt.Tx) error {
			if c := compacted(tx.Bucket(schema.Meta.Name())); c > until {
				return fmt.Errorf("revision %d is not in the full snapshot any more: it was compacted at %d", until, c)
			}
			var from [17]byte
			binary.BigEndian.PutUint64(from[:], uint64(until)+1)
			var gone [][]byte
			cursor := tx.Bucket(schema.Key.Name()).Cursor()
			for k, _ := cursor.Seek(from[:]); k != nil && len(gone) < batch; k, _ = cursor.Next() {
				gone = append(gone, append([]byte(nil), k...))
			}
			more = len(gone) == batch
			for _, k := range gone {
				if err := tx.Bucket(schema.Key.Name()).Delete(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("cut at revision %d: %w", until, err)
		}
	}
	d.revision = until
	return nil
}

// finish adds the leases that events refer to, and clears alarms, which concern the lost disk.
func (d *database) finish() error {
	err := d.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{schema.Lease.Name(), schema.Alarm.Name()} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		leases := tx.Bucket(schema.Lease.Name())
		for id, ttl := range d.leases {
			key := binary.BigEndian.AppendUint64(nil, uint64(id))
			if leases.Get(key) != nil {
				continue
			}
			if ttl <= 0 {
				ttl = unknownTTL
			}
			value, err := (&leasepb.Lease{ID: id, TTL: ttl}).Marshal()
			if err != nil {
				return err
			}
			if err := leases.Put(key, value); err != nil {
				return err
			}
		}
		if err := tx.DeleteBucket(schema.Alarm.Name()); err != nil {
			return err
		}
		_, err := tx.CreateBucket(schema.Alarm.Name())
		return err
	})
	if err != nil {
		return fmt.Errorf("add leases: %w", err)
	}
	return nil
}

// close makes the file durable.
func (d *database) close() error {
	if err := errors.Join(d.bolt.Sync(), d.bolt.Close()); err != nil {
		return fmt.Errorf("close database file: %w", err)
	}
	return nil
}
