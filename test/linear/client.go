package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// dataKey is the key of the value in a register's ConfigMap.
const dataKey = "value"

// Client reads and writes registers through a Kubernetes API, one request at a time, each over a new connection. Every
// request is sent once: clients that retry could not know which attempt took effect.
type Client struct {
	// Number distinguishes the clients of a history.
	Number int
	// Config is the access to the API, with client certificates.
	Config *rest.Config
	// Dial connects; nil means to the address itself.
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)
	Namespace string
	// Timeout of a request.
	Timeout time.Duration
	History *History

	// seen is the newest version of each register that this client knows.
	seen   map[string]version
	writes int
}

// version of a register's ConfigMap.
type version struct{ value, resourceVersion string }

// Run makes random requests to registers, each at a tick, until ctx is done.
func (c *Client) Run(ctx context.Context, keys []string, ticks <-chan time.Time) {
	random := rand.New(rand.NewPCG(uint64(c.Number), 0))
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		key := keys[random.IntN(len(keys))]
		switch random.IntN(4) {
		case 0:
			c.Swap(ctx, key)
		case 1:
			c.Write(ctx, key)
		default:
			c.Read(ctx, key)
		}
	}
}

// Read reads a register. Without a resourceVersion the answer has to be the newest value.
func (c *Client) Read(ctx context.Context, key string) Operation {
	return c.request(ctx, Operation{Kind: Read, Key: key}, http.MethodGet, "/"+key, "")
}

// Swap writes a new value if the register has not changed since this client has read or written it.
func (c *Client) Swap(ctx context.Context, key string) Operation {
	last := c.seen[key]
	o := Operation{Kind: Swap, Key: key, From: last.value, Value: c.next()}
	if last.value == "" {
		return c.request(ctx, o, http.MethodPost, "", "")
	}
	return c.request(ctx, o, http.MethodPut, "/"+key, last.resourceVersion)
}

// Write writes a new value whatever the current one is. A register that does not exist as far as this client knows is
// created.
func (c *Client) Write(ctx context.Context, key string) Operation {
	if c.seen[key].value == "" {
		return c.Swap(ctx, key)
	}
	return c.request(ctx, Operation{Kind: Write, Key: key, Value: c.next()}, http.MethodPut, "/"+key, "")
}

// next returns a value that no other write has.
func (c *Client) next() string {
	c.writes++
	return fmt.Sprintf("%d-%d", c.Number, c.writes)
}

// configMap is the part of a ConfigMap that is used.
type configMap struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// request makes one request and records it with its outcome.
func (c *Client) request(ctx context.Context, o Operation, method, path, resourceVersion string) Operation {
	o.Client = c.Number
	body := configMap{Data: map[string]string{dataKey: o.Value}}
	body.Metadata.Name, body.Metadata.ResourceVersion = o.Key, resourceVersion
	o.Call = c.History.Now()
	status, answer, sent, err := c.send(ctx, method, path, body)
	o.Return = c.History.Now()
	var got configMap
	if err == nil && status < http.StatusMultipleChoices {
		err = json.Unmarshal(answer, &got)
	}
	switch o.Outcome = outcomeOf(o.Kind, status, sent, err); {
	case err != nil:
		o.Reason = err.Error()
	case o.Outcome != Done:
		o.Reason = fmt.Sprintf("status %d: %.300s", status, answer)
	case status == http.StatusNotFound: // A read of a register that does not exist.
		delete(c.seen, o.Key)
	default:
		if o.Kind == Read {
			o.Value = got.Data[dataKey]
		}
		if c.seen == nil {
			c.seen = map[string]version{}
		}
		c.seen[o.Key] = version{value: got.Data[dataKey], resourceVersion: got.Metadata.ResourceVersion}
	}
	c.History.Add(o)
	return o
}

// outcomeOf returns the outcome that an answer proves. Servers also answer with a 5xx status when they do not know
// whether their request to etcd took effect.
func outcomeOf(kind Kind, status int, sent bool, err error) Outcome {
	switch {
	case err != nil && !sent:
		return Refused
	case err != nil, status >= http.StatusInternalServerError:
		return Unknown
	case status < http.StatusMultipleChoices, kind == Read && status == http.StatusNotFound:
		return Done
	default:
		return Refused
	}
}

// send makes one request. sent reports whether the server may have received it: the connection was made.
func (c *Client) send(
	ctx context.Context, method, path string, body configMap,
) (status int, answer []byte, sent bool, err error) {
	tlsConfig, err := rest.TLSConfigFor(c.Config)
	if err != nil {
		return 0, nil, false, err
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true, DialContext: c.Dial}
	defer transport.CloseIdleConnections()
	var content io.Reader
	if method != http.MethodGet {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, false, err
		}
		content = bytes.NewReader(data)
	}
	address, err := url.JoinPath(c.Config.Host, "api/v1/namespaces", c.Namespace, "configmaps", path)
	if err != nil {
		return 0, nil, false, err
	}
	var connected atomic.Bool
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return 0, nil, false, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, nil, connected.Load(), plain(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, true, err
}

// plain leaves out method and address, which the operation has.
func plain(err error) error {
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}
