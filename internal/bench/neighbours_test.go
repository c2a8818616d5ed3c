package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// fakeTenants are Shoots whose API server answers all requests.
type fakeTenants struct {
	server *httptest.Server

	mu     sync.Mutex
	exist  map[string]bool
	fail   string // The Shoot that does not become ready.
	served map[string]int
	more   *sync.Cond // The number of requests increases.
}

func (f *fakeTenants) CreateTenant(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exist[name] = true
	return nil
}

func (f *fakeTenants) AwaitSucceeded(_ context.Context, name string) error {
	if name == f.fail {
		return errors.New("as told")
	}
	return nil
}

func (f *fakeTenants) Client(_ context.Context, name string) (*jsonClient, error) {
	return newJSONClient(&rest.Config{Host: f.server.URL + "/" + name})
}

// MakeNoise does what the separate process does, with its input and output.
func (f *fakeTenants) MakeNoise(ctx context.Context, kind string, names []string) (func() (int, error), error) {
	order := noiseOrder{Noise: kind}
	for _, name := range names {
		kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
			Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: f.server.URL + "/" + name}},
			Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
			CurrentContext: "c",
		})
		if err != nil {
			return nil, err
		}
		order.Kubeconfigs = append(order.Kubeconfigs, kubeconfig)
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	in, input := io.Pipe()
	var out bytes.Buffer
	ended := make(chan error, 1)
	over := false
	go func() {
		err := obeyNoiseOrder(ctx, in, &out)
		_ = in.Close()
		f.mu.Lock()
		over = true
		f.more.Broadcast()
		f.mu.Unlock()
		ended <- err
	}()
	if _, err := input.Write(text); err != nil {
		return nil, errors.Join(err, <-ended)
	}
	f.mu.Lock()
	for before := f.served[names[0]]; !over && f.served[names[0]] <= before+noiseClients; {
		// Until a client has had a response.
		f.more.Wait()
	}
	f.mu.Unlock()
	return func() (int, error) {
		closeErr, endErr := input.Close(), <-ended
		var result noiseResult
		readErr := json.Unmarshal(out.Bytes(), &result)
		return result.Made, errors.Join(closeErr, endErr, readErr)
	}, nil
}

func (f *fakeTenants) DeleteShoot(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.exist, name)
	return nil
}

func (f *fakeTenants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served[strings.Split(r.URL.Path, "/")[1]]++
	f.more.Broadcast()
}

func newTenants(t *testing.T) *fakeTenants {
	f := &fakeTenants{exist: map[string]bool{}, served: map[string]int{}}
	f.more = sync.NewCond(&f.mu)
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func TestNeighbours(t *testing.T) {
	f := newTenants(t)
	// Each reading of the clock advances it by a second, so that the bench is short and its figures are known.
	var mu sync.Mutex
	at := time.Unix(0, 0)
	o := NeighboursOptions{
		Noisy: 2, Period: 10 * time.Second, Progress: t.Logf,
		now:   func() time.Time { mu.Lock(); defer mu.Unlock(); at = at.Add(time.Second); return at },
		sleep: func(context.Context, time.Duration) error { return nil },
	}
	report, err := Neighbours(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, q := range report.Quiet {
		kinds = append(kinds, q.Noise)
		if q.Reads.P99 != 1000 || q.Writes.P99 != 1000 {
			t.Errorf("alongside %s: %+v, want a second for each", q.Noise, q)
		}
		if (q.PerSecond > 0) != (q.Noise != "nothing") {
			t.Errorf("%s: %v requests per second", q.Noise, q.PerSecond)
		}
	}
	if len(kinds) != 1+len(noises) || kinds[0] != "nothing" {
		t.Errorf("measured alongside %q", kinds)
	}
	if len(f.exist) != 0 {
		t.Errorf("left behind: %v", f.exist)
	}
	for _, name := range []string{quietName, "bench-noisy-1", "bench-noisy-2"} {
		if f.served[name] == 0 {
			t.Errorf("no request reached %s", name)
		}
	}
}

func TestNeighboursLeavesNothingAfterAFailure(t *testing.T) {
	f := newTenants(t)
	f.fail = "bench-noisy-1"
	o := NeighboursOptions{Noisy: 1, Progress: t.Logf, now: time.Now, sleep: sleep}
	if _, err := Neighbours(t.Context(), f, o); err == nil || !strings.Contains(err.Error(), "as told") {
		t.Errorf("error %v", err)
	}
	if len(f.exist) != 0 {
		t.Errorf("left behind: %v", f.exist)
	}
	for _, noisy := range []int{0, maxClusters} {
		if _, err := Neighbours(t.Context(), f, NeighboursOptions{Noisy: noisy}); err == nil ||
			!strings.HasPrefix(err.Error(), "--noisy: invalid value: ") {
			t.Errorf("%d noisy tenants: %v", noisy, err)
		}
	}
}
