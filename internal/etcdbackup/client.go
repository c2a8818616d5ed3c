package etcdbackup

import (
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

// maxAnswer is far more than any answer has.
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

func (c *Client) call(ctx context.Context, method, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
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
