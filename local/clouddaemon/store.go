package clouddaemon

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	api "hortus.dev/hortus/local/cloud"
)

const (
	instanceBucket = "instance"
	metaBucket     = "meta"
	userDataBucket = "userdata"
	revisionKey    = "revision"
	// openTimeout bounds the wait for the database lock, which a daemon that is just being killed may still hold.
	openTimeout = 10 * time.Second
	// eventsKept bounds the events in memory. A client that lags further behind gets a reset and lists again.
	eventsKept = 4096
)

// store holds all records: in memory for reading, in bbolt for the next start. All access goes through view and update.
type store struct {
	mu sync.RWMutex
	db *bbolt.DB

	instances     *table[instance]
	networks      *table[network]
	loadBalancers *table[loadBalancer]
	dnsRecords    *table[dnsRecord]
	volumes       *table[volume]
	buckets       *table[bucket]
	objects       *table[object]
	credentials   *table[credentials]
	limits        *table[accountLimits]
	faults        *table[fault]

	revision int64
	events   []api.Event
	changed  chan struct{} // Closed and replaced when revision grows.
}

// tables lists what is kept in the database.
func (s *store) tables() []interface {
	bucket() string
	load(key string, data []byte) error
} {
	return []interface {
		bucket() string
		load(key string, data []byte) error
	}{s.instances, s.networks, s.loadBalancers, s.dnsRecords, s.volumes, s.buckets, s.objects, s.credentials, s.limits,
		s.faults}
}

// openStore opens or makes the database. With noSync a crash of the host (not of the daemon) may lose it.
func openStore(path string, noSync bool) (*store, error) {
	db, err := bbolt.Open(path, 0o600,
		&bbolt.Options{Timeout: openTimeout, NoSync: noSync, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("open store %s: still in use by another cloud daemon", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s := &store{
		db:            db,
		instances:     newTable[instance](instanceBucket),
		networks:      newTable[network]("network"),
		loadBalancers: newTable[loadBalancer]("loadbalancer"),
		dnsRecords:    newTable[dnsRecord]("dnsrecord"),
		volumes:       newTable[volume]("volume"),
		buckets:       newTable[bucket]("bucket"),
		objects:       newTable[object]("object"),
		credentials:   newTable[credentials]("credentials"),
		limits:        newTable[accountLimits]("quota"),
		faults:        newTable[fault]("fault"),
		changed:       make(chan struct{}),
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("load store %s: %w", path, err), db.Close())
	}
	return s, nil
}

func (s *store) load() error {
	return s.db.Update(func(b *bbolt.Tx) error {
		for _, name := range []string{metaBucket, userDataBucket} {
			if _, err := b.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		for _, t := range s.tables() {
			bucket, err := b.CreateBucketIfNotExists([]byte(t.bucket()))
			if err != nil {
				return err
			}
			if err := bucket.ForEach(func(k, v []byte) error { return t.load(string(k), v) }); err != nil {
				return err
			}
		}
		s.revision = 1 // Never 0, which clients use for "I know nothing".
		if v := b.Bucket([]byte(metaBucket)).Get([]byte(revisionKey)); len(v) == 8 {
			s.revision = int64(binary.BigEndian.Uint64(v))
		}
		return nil
	})
}

func (s *store) close() error { return s.db.Close() }

// view runs fn while nothing changes.
func (s *store) view(fn func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn()
}

// tx collects the changes of one update.
type tx struct {
	writes []write
	events []api.Event
	undo   []func()
}

// write is one change of the database; a nil value deletes.
type write struct {
	bucket, key string
	value       []byte
	err         error
}

func (t *tx) write(bucket, key string, v any) {
	w := write{bucket: bucket, key: key}
	if v != nil {
		w.value, w.err = json.Marshal(v)
	}
	t.writes = append(t.writes, w)
}

// event announces a change. Records without a kind are not announced: secrets, and objects, of which there are many.
func (t *tx) event(e api.Event, change string) {
	if e.Kind != "" {
		e.Type = change
		t.events = append(t.events, e)
	}
}

// update runs fn alone; its changes are written in one transaction, or not at all if fn or the write fails.
func (s *store) update(fn func(*tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &tx{}
	err := fn(t)
	if err == nil && len(t.writes) > 0 {
		err = s.commit(t)
	}
	if err != nil {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	}
	return err
}

func (s *store) commit(t *tx) error {
	revision := s.revision + int64(len(t.events))
	err := s.db.Update(func(b *bbolt.Tx) error {
		for _, w := range t.writes {
			if w.err != nil {
				return w.err
			}
			bucket := b.Bucket([]byte(w.bucket))
			if w.value == nil {
				if err := bucket.Delete([]byte(w.key)); err != nil {
					return err
				}
				continue
			}
			if err := bucket.Put([]byte(w.key), w.value); err != nil {
				return err
			}
		}
		return b.Bucket([]byte(metaBucket)).Put([]byte(revisionKey), binary.BigEndian.AppendUint64(nil, uint64(revision)))
	})
	if err != nil {
		return fmt.Errorf("write store: %w", err)
	}
	for _, e := range t.events {
		s.revision++
		e.Revision = s.revision
		s.events = append(s.events, e)
	}
	if len(s.events) > 2*eventsKept { // Trimmed rarely, so that the copy costs little per event.
		s.events = append([]api.Event(nil), s.events[len(s.events)-eventsKept:]...)
	}
	if len(t.events) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return nil
}

// eventsSince returns the events after revision since, and a channel that is closed at the next event.
func (s *store) eventsSince(since int64) (api.EventList, <-chan struct{}) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return selectEvents(s.events, s.revision, since), s.changed
}

// selectEvents picks the events after since. It requests a reset if some of them are no longer in events, or if since
// lies in the future, as it does after the state was deleted.
func selectEvents(events []api.Event, revision, since int64) api.EventList {
	list := api.EventList{Revision: revision, Events: []api.Event{}}
	if since == 0 || since == revision {
		return list
	}
	oldest := revision + 1
	if len(events) > 0 {
		oldest = events[0].Revision
	}
	if since > revision || since < oldest-1 {
		list.Reset = true
		return list
	}
	list.Events = append(list.Events, events[since-(oldest-1):]...)
	return list
}

// eachObject visits the objects of a bucket whose keys begin with prefix and are not before start, ordered by key,
// until visit returns false. The database has the keys in this order, so it costs as much as what is visited; the
// records come from memory. The caller holds the lock.
func (s *store) eachObject(bucket, prefix, start string, visit func(object) bool) error {
	begin, first := []byte(objectKey(bucket, prefix)), []byte(objectKey(bucket, max(prefix, start)))
	return s.db.View(func(b *bbolt.Tx) error {
		cursor := b.Bucket([]byte(s.objects.kind)).Cursor()
		for k, _ := cursor.Seek(first); k != nil && bytes.HasPrefix(k, begin); k, _ = cursor.Next() {
			if o, ok := s.objects.get(string(k)); ok && !visit(o) {
				return nil
			}
		}
		return nil
	})
}

// userData reads the user data of an instance.
func (s *store) userData(id string) (string, error) {
	var data string
	err := s.db.View(func(b *bbolt.Tx) error {
		v := b.Bucket([]byte(userDataBucket)).Get([]byte(id))
		if v == nil {
			return nil
		}
		return json.Unmarshal(v, &data)
	})
	return data, err
}

// RecordedInstances returns the IDs of all instances in the database of a daemon that does not run.
func RecordedInstances(db *bbolt.DB) ([]string, error) {
	var ids []string
	err := db.View(func(b *bbolt.Tx) error {
		bucket := b.Bucket([]byte(instanceBucket))
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(k, _ []byte) error { ids = append(ids, string(k)); return nil })
	})
	return ids, err
}
