// Package stored lets the server follow what it stores itself, out of its own watch caches. Through HTTP and JSON, as
// others do it, following all Shoots took a quarter of the CPU time of every write.
package stored

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

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
			return follow(ctx, store, internal)
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

// follower hands events on until the watch, its time or the interest in it ends.
type follower struct {
	results chan watch.Event
	cancel  context.CancelFunc
}

// follow watches a store for as long as the options say. What serves requests sees to that for those over HTTP.
func follow(ctx context.Context, store rest.Watcher, options *internalversion.ListOptions) (watch.Interface, error) {
	ctx, cancel := withTimeout(ctx, options.TimeoutSeconds)
	events, err := store.Watch(ctx, options)
	if err != nil {
		cancel()
		return nil, err
	}
	f := &follower{results: make(chan watch.Event), cancel: cancel}
	go f.run(ctx, events)
	return f, nil
}

func withTimeout(ctx context.Context, seconds *int64) (context.Context, context.CancelFunc) {
	if seconds == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
}

func (f *follower) run(ctx context.Context, events watch.Interface) {
	defer close(f.results)
	defer events.Stop()
	defer f.cancel()
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			select {
			case f.results <- unwrap(event):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// Stop implements watch.Interface.
func (f *follower) Stop() { f.cancel() }

// ResultChan implements watch.Interface.
func (f *follower) ResultChan() <-chan watch.Event { return f.results }

// unwrap takes an object out of the wrapping in which several watchers share its encoding.
func unwrap(event watch.Event) watch.Event {
	if wrapped, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = wrapped.GetObject()
	}
	return event
}
