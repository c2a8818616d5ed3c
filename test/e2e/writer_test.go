//go:build landscape

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// writePeriod is the pause between two writes of a writer: each costs all programs together 14 ms of processor time.
	writePeriod = 250 * time.Millisecond
	// writeTimeout bounds one write.
	writeTimeout = 10 * time.Second
)

// writer is a client of an API server that writes all the time, each time over a new connection, and remembers the
// acknowledged writes.
type writer struct {
	prefix string
	// path is where it creates objects, and manifest what they contain apart from their metadata.
	path     string
	manifest map[string]any

	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	config *rest.Config
	acked  []string
	// last is the time of the last acknowledged write, gap the longest time between two, failed the number of errors by
	// text.
	last   time.Time
	gap    time.Duration
	gapEnd time.Time
	failed map[string]int
}

// startWriter creates a writer of ConfigMaps in the Shoot of a kubeconfig file. It stops with the test at the latest.
func startWriter(t *testing.T, kubeconfig string) *writer {
	t.Helper()
	w := &writer{path: "/api/v1/namespaces/default/configmaps"}
	w.use(t, kubeconfig)
	w.start(t)
	return w
}

// startGardenWriter creates a writer of InternalSecrets in the garden, objects that its own API server encrypts.
func startGardenWriter(t *testing.T) *writer {
	t.Helper()
	w := &writer{
		path: "/apis/core.gardener.cloud/v1beta1/namespaces/" + projectNS + "/internalsecrets",
		manifest: map[string]any{
			"apiVersion": "core.gardener.cloud/v1beta1", "kind": "InternalSecret", "stringData": map[string]string{"a": "b"},
		},
	}
	w.use(t, kubeconfigOf("garden"))
	w.start(t)
	return w
}

func (w *writer) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w.prefix, w.stop, w.done = fmt.Sprintf("w%d-", time.Now().UnixNano()), cancel, make(chan struct{})
	w.failed, w.last = map[string]int{}, time.Now()
	go w.run(ctx)
	t.Cleanup(w.end)
}

// use makes the writer continue with another kubeconfig.
func (w *writer) use(t *testing.T, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config = config
}

func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	ticker := time.NewTicker(writePeriod)
	defer ticker.Stop()
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s%d", w.prefix, n)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := w.write(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if w.note(name, err) {
				break
			}
		}
	}
}

// writtenValue is the annotation whose value is the name of the object.
const writtenValue = "example.com/value"

// write creates one object. If it exists already, an earlier attempt has created it, whose response was lost.
func (w *writer) write(ctx context.Context, name string) error {
	w.mu.Lock()
	config := w.config
	w.mu.Unlock()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}
	if config.ServerName != "" {
		transport.DialContext = dialByName(config.ServerName)
	}
	defer transport.CloseIdleConnections()
	object := maps.Clone(w.manifest)
	if object == nil {
		object = map[string]any{}
	}
	object["metadata"] = map[string]any{"name": name, "annotations": map[string]string{writtenValue: name}}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+w.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusConflict {
		return fmt.Errorf("status %d: %.200s", answer.StatusCode, text)
	}
	return nil
}

// note records the outcome of a write and reports whether it was acknowledged.
func (w *writer) note(name string, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed[err.Error()]++
		return false
	}
	now := time.Now()
	if gap := now.Sub(w.last); gap > w.gap {
		w.gap, w.gapEnd = gap, now
	}
	w.last = now
	w.acked = append(w.acked, name)
	return true
}

// longestGap is the longest time without an acknowledged write since the last call.
func (w *writer) longestGap() (time.Duration, map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap, failed := max(w.gap, time.Since(w.last)), w.failed
	w.gap, w.failed = 0, map[string]int{}
	return gap, failed
}

func (w *writer) end() {
	w.stop()
	<-w.done
}

// acknowledged is the number of writes so far.
func (w *writer) acknowledged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// silent is the time since the last acknowledged write.
func (w *writer) silent() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last)
}

// check ends the writer and compares the acknowledged writes with the objects in the cluster. It returns their number.
func (w *writer) check(t *testing.T, kubeconfig string) int {
	t.Helper()
	w.end()
	w.checkFirst(t, kubeconfig, len(w.acked))
	return len(w.acked)
}

// checkFirst checks that the first n acknowledged writes are there, and prints how many of the others are.
func (w *writer) checkFirst(t *testing.T, kubeconfig string, n int) {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(kubectl(t, kubeconfig, "get", "--raw", w.path)), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, item := range list.Items {
		found[item.Metadata.Name] = item.Metadata.Annotations[writtenValue]
	}
	lost, lostLater := 0, 0
	for i, name := range w.acked {
		switch {
		case found[name] == name:
		case i < n:
			lost++
		default:
			lostLater++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, n)
	}
	if n < len(w.acked) {
		t.Logf("%d of %d writes are lost that no backup had yet", lostLater, len(w.acked)-n)
	}
}

// awaitMore waits until the given number of further writes is acknowledged.
func (w *writer) awaitMore(t *testing.T, more int) {
	t.Helper()
	before := w.acknowledged()
	eventually(t, fmt.Sprintf("%d more writes", more), func() error {
		if n := w.acknowledged() - before; n < more {
			return fmt.Errorf("%d of %d", n, more)
		}
		return nil
	})
}

// during runs a change while the writer writes, prints the longest gap between acknowledged writes, and fails if it is
// above the bound.
func (w *writer) during(t *testing.T, what string, bound time.Duration, change func()) {
	t.Helper()
	w.longestGap()
	start := time.Now()
	change()
	gap, failed := w.longestGap()
	t.Logf("%s: %s, longest gap %s, failed requests %v", what, time.Since(start).Round(100*time.Millisecond),
		gap.Round(time.Millisecond), failed)
	if gap > bound {
		t.Errorf("%s: no write was acknowledged for %s, want less than %s; failed requests: %v", what, gap, bound, failed)
	}
}
