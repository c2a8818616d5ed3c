package clouddaemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	api "hortus.dev/hortus/local/cloud"
)

// row is the part of a record that a table needs: its form in events, and the name under which it is unique.
type row interface {
	// event describes the record; Revision and Type are filled in by the transaction.
	event() api.Event
	// uniqueName is the account and name by which create calls are idempotent, "" if the key serves as such.
	uniqueName() string
}

// table holds all records of a kind in memory; the transaction keeps the database in step. Records are values and are
// replaced as a whole, so a copy handed out never changes.
type table[T row] struct {
	kind  string
	rows  map[string]T
	names map[string]string // uniqueName to key.
}

func newTable[T row](kind string) *table[T] {
	return &table[T]{kind: kind, rows: map[string]T{}, names: map[string]string{}}
}

func (t *table[T]) bucket() string { return t.kind }

// load adds a record from the database without an event.
func (t *table[T]) load(key string, data []byte) error {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("decode %s %q: %w", t.kind, key, err)
	}
	t.set(key, v)
	return nil
}

func (t *table[T]) set(key string, v T) {
	t.rows[key] = v
	if name := v.uniqueName(); name != "" {
		t.names[name] = key
	}
}

func (t *table[T]) unset(key string) {
	if v, ok := t.rows[key]; ok {
		delete(t.names, v.uniqueName())
		delete(t.rows, key)
	}
}

func (t *table[T]) get(key string) (T, bool) {
	v, ok := t.rows[key]
	return v, ok
}

// byName finds a record by its account and name.
func (t *table[T]) byName(name string) (T, bool) {
	key, ok := t.names[name]
	if !ok {
		var none T
		return none, false
	}
	return t.get(key)
}

// sorted returns the records that match, ordered by key.
func (t *table[T]) sorted(match func(T) bool) []T {
	out := []T{}
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		if v := t.rows[key]; match == nil || match(v) {
			out = append(out, v)
		}
	}
	return out
}

// put writes a record in tx and announces it.
func (t *table[T]) put(tx *tx, key string, v T) {
	change := "created"
	if _, ok := t.rows[key]; ok {
		change = "updated"
	}
	t.putQuietly(tx, key, v)
	tx.event(v.event(), change)
}

// putQuietly writes a record in tx without an event.
func (t *table[T]) putQuietly(tx *tx, key string, v T) {
	old, existed := t.rows[key]
	tx.undo = append(tx.undo, func() {
		t.unset(key)
		if existed {
			t.set(key, old)
		}
	})
	t.unset(key) // The unique name of the record may change.
	t.set(key, v)
	tx.write(t.kind, key, v)
}

// remove deletes a record in tx; a missing one is fine.
func (t *table[T]) remove(tx *tx, key string) {
	old, ok := t.rows[key]
	if !ok {
		return
	}
	tx.undo = append(tx.undo, func() { t.set(key, old) })
	t.unset(key)
	tx.write(t.kind, key, nil)
	tx.event(old.event(), "deleted")
}
