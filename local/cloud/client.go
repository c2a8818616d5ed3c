package cloud

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Config is the endpoint of the cloud and the credentials of the caller.
type Config struct {
	// endpoint is the base URL, for example https://198.18.0.1:7443.
	Endpoint  string `json:"endpoint"`
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	// ca is the PEM encoded certificate authority of the endpoint. Empty means the host's.
	CA string `json:"ca,omitempty"`
}

// AdminFile is the path of the administrator's Config below a state directory.
func AdminFile(stateDir string) string { return filepath.Join(stateDir, "cloud", "admin.json") }

// LoadConfig reads a Config from a JSON file, such as the one at AdminFile.
func LoadConfig(path string) (Config, error) {
	var cfg Config
	data, err := os.ReadFile(path)
	if err != nil {
		return cfg, fmt.Errorf("read cloud configuration: %w", err)
	}
	if err := json.Unmarshal(data, &cfg); err != nil {
		return cfg, fmt.Errorf("parse cloud configuration %s: %w", path, err)
	}
	return cfg, nil
}

// Client calls the cloud. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// maxErrorBytes bounds the bytes read of an error response; real ones have a few hundred bytes.
const maxErrorBytes = 64 << 10

// New returns a Client for cfg; it does not connect.
func New(cfg Config) (*Client, error) {
	if _, err := url.ParseRequestURI(cfg.Endpoint); err != nil {
		return nil, fmt.Errorf("cloud endpoint: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // The cloud is on this host or reached through its own network.
	if cfg.CA != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(cfg.CA)) {
			return nil, errors.New("cloud certificate authority: no certificate in PEM data")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	cfg.Endpoint = strings.TrimSuffix(cfg.Endpoint, "/")
	return &Client{cfg: cfg, http: &http.Client{Transport: transport}}, nil
}

// Endpoint returns the base URL of the cloud.
func (c *Client) Endpoint() string { return c.cfg.Endpoint }

// do sends one request; in and out may be nil. Errors are *Error, wrapped with the operation.
func (c *Client) do(ctx context.Context, op, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("cloud %s: encode request: %w", op, err)
		}
		body = bytes.NewReader(data)
	}
	resp, err := c.send(ctx, op, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // Drained, so that the connection can be used again.
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("cloud %s: decode answer: %w", op, err)
	}
	return nil
}

// send sends one request and returns the response if it is a success; the caller closes its body.
func (c *Client) send(
	ctx context.Context, op, method, path string, query url.Values, body io.Reader,
) (*http.Response, error) {
	target := c.cfg.Endpoint + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, fmt.Errorf("cloud %s: %w", op, err)
	}
	req.SetBasicAuth(c.cfg.AccessKey, c.cfg.SecretKey)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cloud %s: %w", op, ctx.Err())
		}
		return nil, fmt.Errorf("cloud %s: %w", op, Errorf(CodeUnavailable, "no answer from the cloud: %v", err))
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	apiErr := &Error{}
	if json.Unmarshal(data, apiErr) != nil || apiErr.Code == "" {
		apiErr = Errorf(CodeUnavailable, "unexpected answer with status %d", resp.StatusCode)
	}
	return nil, fmt.Errorf("cloud %s: %w", op, apiErr)
}

func (f Filter) query() url.Values {
	q := url.Values{}
	if f.Name != "" {
		q.Set("name", f.Name)
	}
	if f.NetworkID != "" {
		q.Set("networkID", f.NetworkID)
	}
	for k, v := range f.Tags {
		q.Add("tag", k+"="+v)
	}
	return q
}

// List is the wire form of every list.
type List[T any] struct {
	Items []T `json:"items"`
	// revision is the revision of this list; Client.Events returns every change after it.
	Revision int64 `json:"revision"`
}

func get[T any](ctx context.Context, c *Client, op, path string, query url.Values) (*T, error) {
	out := new(T)
	if err := c.do(ctx, op, http.MethodGet, path, query, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

func list[T any](ctx context.Context, c *Client, op, path string, query url.Values) ([]T, error) {
	out, err := get[List[T]](ctx, c, op, path, query)
	if err != nil {
		return nil, err
	}
	return out.Items, nil
}

func put[T any](ctx context.Context, c *Client, op, method, path string, in any) (*T, error) {
	out := new(T)
	if err := c.do(ctx, op, method, path, nil, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Client) delete(ctx context.Context, op, path string) error {
	return c.do(ctx, op, http.MethodDelete, path, nil, nil, nil)
}

// About returns a description of the cloud and of the caller.
func (c *Client) About(ctx context.Context) (*About, error) {
	return get[About](ctx, c, "About", "/v1/about", nil)
}

// Events waits at most wait for changes after revision since and returns them; no events and no error means that
// nothing happened. Call it with since 0 for the current revision, or use the revision of a list.
func (c *Client) Events(ctx context.Context, since int64, wait time.Duration) (*EventList, error) {
	q := url.Values{
		"since": {strconv.FormatInt(since, 10)}, "waitSeconds": {strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)},
	}
	return get[EventList](ctx, c, "Events", "/v1/events", q)
}

const (
	// watchWait is the duration of one long poll: below the idle limits of usual proxies (60 s).
	watchWait = 30 * time.Second
	// watchRetry is the pause after a failed poll; the daemon restarts within a second or two.
	watchRetry = time.Second
)

// Watch calls handle for every answer with events, or with Reset set, until ctx ends; the first answer has Reset set,
// so that the caller lists once. It survives restarts of the cloud.
func (c *Client) Watch(ctx context.Context, handle func(*EventList)) error {
	since := int64(0)
	for ctx.Err() == nil {
		events, err := c.Events(ctx, since, watchWait)
		if err != nil {
			if code := CodeOf(err); code == CodeAuthFailure || code == CodeUnauthorized {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(watchRetry):
			}
			continue
		}
		if since == 0 {
			events.Reset = true
		}
		since = events.Revision
		if events.Reset || len(events.Events) > 0 {
			handle(events)
		}
	}
	return ctx.Err()
}

func decode[T any](op string, r io.Reader) (*T, error) {
	out := new(T)
	if err := json.NewDecoder(r).Decode(out); err != nil {
		return nil, fmt.Errorf("cloud %s: decode answer: %w", op, err)
	}
	return out, nil
}
