package managedresource

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// record is what is remembered of a ManagedResource between two reconciles, to save requests. It may be lost at any
// time; everything is read and applied again then.
type record struct {
	input     string               // Generation and Secrets that were applied last.
	announced string               // Generation and Secrets in the status that have not been applied yet.
	stamps    map[reference]string // Of the objects, after they were applied.
	judged    map[reference]verdict
}

// verdict is the judgement of one object at a resource version.
type verdict struct {
	uid       types.UID
	version   string
	unhealthy string
	progress  string
	recheck   bool // The judgement depends on more than the object itself, which is about to change.
	pods      bool // It depends on the states of pods.
}

// records is the memory of all ManagedResources.
type records struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*record
}

// get returns the record, made when it is missing. Only one reconcile of a ManagedResource runs at a time, so its
// record needs no lock of its own.
func (r *records) get(key types.NamespacedName) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = map[types.NamespacedName]*record{}
	}
	if r.byKey[key] == nil {
		r.byKey[key] = &record{stamps: map[reference]string{}, judged: map[reference]verdict{}}
	}
	return r.byKey[key]
}

func (r *records) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}
