package etcdbackup

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/hortus/internal/etcdbackup/chain"
)

// maxAnswer bounds the size of an answer, in bytes; it is far more than any answer has.
const maxAnswer = 1 << 20

// Client calls the service of one etcd member. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client of the service at a URL such as https://etcd-main.shoot--dev--a.svc:2382. config has to
// carry a client certificate and the authority of the server's certificate.
func NewClient(url string, config *tls.Config) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}}}
}

// Close ends connections that are idle. The client can be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status of the backups.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.call(ctx, http.MethodGet, "/v1/status", &s)
}

// Snapshot waits until everything that etcd holds at the time of the call is in the store, as a delta or as a new full
// snapshot. ctx has to allow for the time that takes.
func (c *Client) Snapshot(ctx context.Context, kind chain.Kind) (Snapshot, error) {
	var s Snapshot
	return s, c.call(ctx, http.MethodPost, "/v1/snapshot?kind="+url.QueryEscape(string(kind)), &s)
}

// Confirmation is the body of PUT /v1/confirmation.
type Confirmation struct {
	// Epoch that the garden has for the control plane.
	Epoch int64 `json:"epoch"`
}

// Confirm reports to the process the control plane's epoch in the garden. The caller must have read it from the garden
// just before the call. An epoch higher than that of the process stops its etcd permanently.
func (c *Client) Confirm(ctx context.Context, epoch int64) error {
	return c.send(ctx, http.MethodPut, "/v1/confirmation", Confirmation{Epoch: epoch})
}

// Activation is the body of POST /v1/activation.
type Activation struct {
	// Epoch to claim, and Holder to claim it for.
	Epoch  int64  `json:"epoch"`
	Holder string `json:"holder"`
}

// Activate lets a process that stands by claim an epoch, restore the newest backup and start etcd. It does not wait for
// that: the status reports the progress. A repeated call changes nothing.
func (c *Client) Activate(ctx context.Context, epoch int64, holder string) error {
	return c.send(ctx, http.MethodPost, "/v1/activation", Activation{Epoch: epoch, Holder: holder})
}

func (c *Client) send(ctx context.Context, method, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request to etcd-backup: %w", err)
	}
	var s Status
	return c.request(ctx, method, path, bytes.NewReader(data), &s)
}

func (c *Client) call(ctx context.Context, method, path string, into any) error {
	return c.request(ctx, method, path, nil, into)
}

func (c *Client) request(ctx context.Context, method, path string, content io.Reader, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
	if err != nil {
		return fmt.Errorf("call etcd-backup: %w", err)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("call etcd-backup: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("call etcd-backup: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd-backup at %s answered %d: %s", c.url, answer.StatusCode, strings.TrimSpace(string(body)))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode answer of etcd-backup: %w", err)
	}
	return nil
}
