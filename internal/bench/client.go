package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	mergePatch = "application/merge-patch+json"
	plainJSON  = "application/json"
	// errorText is the length of the part of a response that an error quotes, in bytes.
	errorText = 500
)

// jsonClient speaks JSON to one server over one connection. It knows no types.
type jsonClient struct {
	base   string
	http   *http.Client
	accept string
}

// newJSONClient makes a client with a connection of its own: clients of real servers are processes of their own, too.
func newJSONClient(config *rest.Config) (*jsonClient, error) {
	own := rest.CopyConfig(config)
	own.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // Keeps client-go from sharing the connection.
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", config.Host, err)
	}
	return &jsonClient{base: strings.TrimSuffix(config.Host, "/"), http: client, accept: plainJSON}, nil
}

func newJSONClients(config *rest.Config, n int) ([]*jsonClient, error) {
	clients := make([]*jsonClient, n)
	for i := range clients {
		var err error
		if clients[i], err = newJSONClient(config); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// statusError is a response other than success.
type statusError struct {
	code         int
	method, path string
	text         string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s %s: %d %s", e.method, e.path, e.code, e.text)
}

func hasStatus(err error, codes ...int) bool {
	var status *statusError
	if !errors.As(err, &status) {
		return false
	}
	for _, code := range codes {
		if status.code == code {
			return true
		}
	}
	return false
}

// start sends a request and returns the open response.
func (c *jsonClient) start(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Accept", c.accept)
	if len(body) > 0 {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, errorText))
		return nil, errors.Join(&statusError{response.StatusCode, method, path, string(text)}, err)
	}
	return response.Body, nil
}

// send sends a request, reads the answer to its end and returns its size.
func (c *jsonClient) send(ctx context.Context, method, path, contentType string, body []byte) (int64, error) {
	answer, err := c.start(ctx, method, path, contentType, body)
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	size, err := io.Copy(io.Discard, answer)
	if err != nil {
		return size, fmt.Errorf("%s %s: read answer: %w", method, path, err)
	}
	return size, nil
}

// read gets a path and decodes the answer.
func (c *jsonClient) read(ctx context.Context, path string, into any) error {
	answer, err := c.start(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	if err := json.NewDecoder(answer).Decode(into); err != nil {
		return fmt.Errorf("GET %s: decode answer: %w", path, err)
	}
	return nil
}

// outcome is the time that a number of operations took.
type outcome struct {
	durations []time.Duration
	elapsed   time.Duration
	bytes     int64
}

// load runs n operations with all clients concurrently. The first error ends it: a bench with errors measures nothing.
func load(
	ctx context.Context, clients []*jsonClient, n int,
	operation func(ctx context.Context, c *jsonClient, i int) (int64, error),
) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := outcome{durations: make([]time.Duration, n)}
	var next, size atomic.Int64
	var workers sync.WaitGroup
	start := time.Now()
	for _, c := range clients {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				before := time.Now()
				got, err := operation(ctx, c, i)
				if err != nil {
					cancel(err)
					return
				}
				result.durations[i] = time.Since(before)
				size.Add(got)
			}
		})
	}
	workers.Wait()
	result.elapsed, result.bytes = time.Since(start), size.Load()
	if err := context.Cause(ctx); err != nil {
		return outcome{}, err
	}
	return result, nil
}
