package reconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestPausesOfControllersAreBounded(t *testing.T) {
	limiter, a := RateLimiter(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}
	last := time.Duration(0)
	for n := range 100 {
		next := limiter.When(a)
		if next > MaxPause || next < last {
			t.Fatalf("pause %d is %s after %s", n, next, last)
		}
		last = next
	}
	if last != MaxPause {
		t.Errorf("the last pause is %s", last)
	}
	limiter.Forget(a)
	if next := limiter.When(a); next != minPause {
		t.Errorf("after a success, the next failure pauses for %s", next)
	}
}

func TestPausesOfCachesAreBounded(t *testing.T) {
	for n, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 10 * time.Second, 10 * time.Second} {
		if got := listPause(n, 0); got != want {
			t.Errorf("longest pause after failure %d is %s, want %s", n, got, want)
		}
		if got := listPause(n, 0.5); got != want*3/4 {
			t.Errorf("mean pause after failure %d is %s, want %s", n, got, want*3/4)
		}
	}
	if got := listPause(1000, 0); got != maxListPause {
		t.Errorf("pause after many failures is %s", got)
	}
}

func TestWhichErrorsAreOutages(t *testing.T) {
	dial := &url.Error{Op: "Get", URL: "https://garden", Err: io.ErrUnexpectedEOF}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no connection":                    {dial, true},
		"an API server behind it is down":  {apierrors.NewServiceUnavailable("down"), true},
		"the version is too old":           {apierrors.NewResourceExpired("old"), false},
		"the server wants fewer requests":  {apierrors.NewTooManyRequests("later", 1), false},
		"nobody authorizes gardenlets":     {apierrors.NewForbidden(schema.GroupResource{}, "", dial.Err), true},
		"an answer that cannot be decoded": {errors.New("no kind"), false},
	} {
		if got := outage(tc.err); got != tc.want {
			t.Errorf("%s: outage() = %t, want %t", name, got, tc.want)
		}
	}
}

// server is an API of ConfigMaps that can be cut off.
type server struct {
	down     atomic.Bool
	attempts atomic.Int64
	watches  chan *watch.FakeWatcher
}

func (s *server) reach() error {
	s.attempts.Add(1)
	if s.down.Load() {
		return &url.Error{Op: "Get", URL: "https://garden", Err: io.EOF}
	}
	return nil
}

func (s *server) listWatch() cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, s.reach()
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewBadRequest("no streams") // So that lists are tested as well.
			}
			if err := s.reach(); err != nil {
				return nil, err
			}
			w := watch.NewFake()
			s.watches <- w
			return w, nil
		},
	}
}

// TestCachesContinueAfterALongOutage moves the clock of a bubble by 20 minutes.
func TestCachesContinueAfterALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{watches: make(chan *watch.FakeWatcher, 10)}
		informer := NewInformer(s.listWatch(), &corev1.ConfigMap{}, 0, cache.Indexers{})
		ended := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(ended) }()
		first := <-s.watches
		s.down.Store(true)
		first.Stop()
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := s.attempts.Load(); n < 20*60/10 {
			t.Errorf("%d attempts in 20 minutes", n)
		}
		s.down.Store(false)
		returned := time.Now()
		second := <-s.watches
		if took := time.Since(returned); took > maxListPause+2*time.Second { // A list, and the reflector's first pause.
			t.Errorf("the watch continues %s after the server's return", took)
		}
		second.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "2"}})
		synctest.Wait()
		if _, found, err := informer.GetStore().GetByKey("a"); err != nil || !found {
			t.Errorf("the change is not in the cache (%v)", err)
		}
		cancel()
		<-ended
	})
}

func TestWaitGivesUpOnlyOnBadCredentials(t *testing.T) {
	answers := make(chan int, 10)
	garden := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case code := <-answers:
			w.WriteHeader(code)
		default:
			w.WriteHeader(http.StatusOK)
		}
	}))
	t.Cleanup(garden.Close)
	config := &rest.Config{Host: garden.URL}
	Bound(config)
	answers <- http.StatusServiceUnavailable
	if err := Wait(t.Context(), config, "/version"); err != nil {
		t.Errorf("Wait() = %v", err)
	}
	answers <- http.StatusUnauthorized
	if err := Wait(t.Context(), config, "/version"); !apierrors.IsUnauthorized(err) {
		t.Errorf("Wait() with bad credentials = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answers <- http.StatusForbidden
	if err := Wait(ctx, config, "/version"); err == nil {
		t.Error("Wait() continues after its context has ended")
	}
}
