// Package stored lets the server follow what it stores itself, out of its own watch caches. Through HTTP and JSON, as
// others do it, following all Shoots took a quarter of the CPU time of every write.
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

// Store is a kind that can be followed.
type Store interface {
	rest.Storage
	rest.Lister
	rest.Watcher
}

// Kinds are the stores of all kinds, by the type of their objects. They are made after those who follow them.
type Kinds struct {
	mu     sync.Mutex
	stores map[reflect.Type]Store
}

// Add makes a kind known. Storage that can't be followed is left out.
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

// ListerWatcher follows the objects of a type in all namespaces. They are shared with the cache: who gets one does not
// change what it points to.
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

// follower is a filtered watch. The filter hands on one event at a time, and would wait for ever for a reader that has
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

// unwrap takes an object out of the wrapping in which several watchers share its encoding.
func unwrap(event watch.Event) (watch.Event, bool) {
	if wrapped, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = wrapped.GetObject()
	}
	return event, true
}
