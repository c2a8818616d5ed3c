// Package stored lists and watches the objects that this API server stores, directly from its watch caches. Through
// HTTP and JSON, as other clients do it, watching all Shoots took a quarter of the CPU time of every write.
package stored

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"
)

// Store is a storage that supports list and watch.
type Store interface {
	rest.Storage
	rest.Lister
	rest.Watcher
}

// Kinds holds the stores of all kinds by the type of their objects. Their users are created before the stores.
type Kinds struct {
	mu     sync.Mutex
	stores map[reflect.Type]Store
}

// Add adds the store of a kind. Storage without list and watch is ignored.
func (k *Kinds) Add(storage rest.Storage) {
	store, ok := storage.(Store)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stores == nil {
		k.stores = map[reflect.Type]Store{}
	}
	k.stores[reflect.TypeOf(store.New())] = store
}

func (k *Kinds) store(kind reflect.Type) (Store, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if store := k.stores[kind]; store != nil {
		return store, nil
	}
	return nil, fmt.Errorf("%s is not stored here", kind)
}

// ListerWatcher lists and watches the objects of a type in all namespaces. The objects are shared with the cache and
// must not be changed.
func (k *Kinds) ListerWatcher(object runtime.Object) cache.ListerWatcher {
	kind := reflect.TypeOf(object)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			store, internal, err := k.prepare(kind, options)
			if err != nil {
				return nil, err
			}
			return store.List(ctx, internal)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			store, internal, err := k.prepare(kind, options)
			if err != nil {
				return nil, err
			}
			events, err := store.Watch(ctx, internal)
			if err != nil {
				return nil, err
			}
			return follower{watch.Filter(events, unwrap)}, nil
		},
	}
}

func (k *Kinds) prepare(kind reflect.Type, options metav1.ListOptions) (Store, *internalversion.ListOptions, error) {
	store, err := k.store(kind)
	if err != nil {
		return nil, nil, err
	}
	internal := &internalversion.ListOptions{}
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, internal, nil); err != nil {
		return nil, nil, fmt.Errorf("convert list options: %w", err)
	}
	return store, internal, nil
}

// follower is a filtered watch. The filter passes on one event at a time, and would block for ever if its reader
// stopped.
type follower struct{ watch.Interface }

// Stop implements [watch.Interface].
func (f follower) Stop() {
	f.Interface.Stop()
	go func() {
		for range f.ResultChan() { // Until the filter closes it.
		}
	}()
}

// unwrap takes an object out of the wrapper in which watchers share its encoding.
func unwrap(event watch.Event) (watch.Event, bool) {
	if wrapped, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = wrapped.GetObject()
	}
	return event, true
}
