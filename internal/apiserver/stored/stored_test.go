package stored

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

// seeds stores Seeds. It records the options of requests.
type seeds struct {
	Store
	events *watch.FakeWatcher
	asked  []internalversion.ListOptions
}

func (s *seeds) New() runtime.Object { return &corev1beta1.Seed{} }

func (s *seeds) List(_ context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	s.asked = append(s.asked, *options)
	return &corev1beta1.SeedList{Items: []corev1beta1.Seed{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
}

func (s *seeds) Watch(_ context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	s.asked = append(s.asked, *options)
	return s.events, nil
}

// wrapped is an object as a watch cache passes it to several watchers.
type wrapped struct{ *corev1beta1.Seed }

func (w wrapped) GetObject() runtime.Object { return w.Seed }

func (w wrapped) CacheEncode(runtime.Identifier, func(runtime.Object, io.Writer) error, io.Writer) error {
	return nil
}

// unwatched does not support watches.
type unwatched struct{ rest.Storage }

func TestListerWatcherFollowsAStore(t *testing.T) {
	kinds := &Kinds{}
	follow := cache.ToListerWatcherWithContext(kinds.ListerWatcher(&corev1beta1.Seed{}))
	if list, err := follow.ListWithContext(t.Context(), metav1.ListOptions{}); err == nil {
		t.Errorf("listed %v before there was a store", list)
	}
	store := &seeds{events: watch.NewFakeWithChanSize(3, false)}
	kinds.Add(unwatched{})
	kinds.Add(store)

	list, err := follow.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.(*corev1beta1.SeedList).Items) != 1 {
		t.Errorf("listed %v: %v", list, err)
	}
	events, err := follow.WatchWithContext(t.Context(), metav1.ListOptions{
		ResourceVersion: "5", AllowWatchBookmarks: true, SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []watch.Event{
		{Type: watch.Added, Object: &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}},
		{Type: watch.Modified, Object: &corev1beta1.Seed{ObjectMeta: metav1.ObjectMeta{Name: "own"}}},
		{Type: watch.Error, Object: &metav1.Status{Reason: metav1.StatusReasonExpired}},
	}
	store.events.Add(wrapped{want[0].Object.(*corev1beta1.Seed)})
	store.events.Modify(want[1].Object)
	store.events.Error(want[2].Object)
	store.events.Stop()
	var got []watch.Event
	for event := range events.ResultChan() {
		got = append(got, event)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(store.asked) != 2 || store.asked[0].ResourceVersion != "0" || store.asked[1].ResourceVersion != "5" ||
		!store.asked[1].AllowWatchBookmarks || !*store.asked[1].SendInitialEvents ||
		store.asked[1].ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan {
		t.Errorf("the store got the options %+v", store.asked)
	}
	if _, err := cache.ToListerWatcherWithContext(kinds.ListerWatcher(&corev1beta1.Shoot{})).WatchWithContext(t.Context(),
		metav1.ListOptions{}); err == nil {
		t.Error("a kind whose store does not support watches can be watched")
	}
}

// TestStoppedWatchLeavesNothingBehind stops a watch with an event that nobody has read. The bubble fails if a goroutine
// is left.
func TestStoppedWatchLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := &Kinds{}
		store := &seeds{events: watch.NewFakeWithChanSize(1, false)}
		kinds.Add(store)
		w, err := cache.ToListerWatcherWithContext(kinds.ListerWatcher(&corev1beta1.Seed{})).WatchWithContext(t.Context(),
			metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		store.events.Add(&corev1beta1.Seed{})
		synctest.Wait()
		w.Stop()
		if !store.events.IsStopped() {
			t.Error("the store's watch continues")
		}
	})
}
