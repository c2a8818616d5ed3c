package unit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// Client talks to a supervisor's Handler on a Unix socket.
type Client struct {
	http *http.Client
}

// NewClient returns a client for the socket at path. It connects with each call.
func NewClient(path string) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}}
}

// List returns all units.
func (c *Client) List(ctx context.Context) ([]Status, error) {
	var list []Status
	return list, c.call(ctx, http.MethodGet, "/v1/units", &list)
}

// Status returns one unit; it fails with ErrNotFound if there is none.
func (c *Client) Status(ctx context.Context, name string) (Status, error) {
	var status Status
	return status, c.call(ctx, http.MethodGet, "/v1/units/"+url.PathEscape(name), &status)
}

// Start starts a unit and waits until it is started or has failed to.
func (c *Client) Start(ctx context.Context, name string) error { return c.do(ctx, name, "start") }

// Stop stops a unit and waits for its end.
func (c *Client) Stop(ctx context.Context, name string) error { return c.do(ctx, name, "stop") }

// Restart stops a unit if it runs, and starts it.
func (c *Client) Restart(ctx context.Context, name string) error { return c.do(ctx, name, "restart") }

// Enable lets a unit start at boot.
func (c *Client) Enable(ctx context.Context, name string) error { return c.do(ctx, name, "enable") }

// Disable undoes Enable.
func (c *Client) Disable(ctx context.Context, name string) error { return c.do(ctx, name, "disable") }

// Reload checks all unit files.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/daemon-reload", nil)
}

func (c *Client) do(ctx context.Context, name, action string) error {
	return c.call(ctx, http.MethodPost, "/v1/units/"+url.PathEscape(name)+"/"+action, nil)
}

func (c *Client) call(ctx context.Context, method, path string, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, nil)
	if err != nil {
		return fmt.Errorf("call the unit supervisor: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("call the unit supervisor: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the unit supervisor's answer: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(body, result); err != nil {
			return fmt.Errorf("read the unit supervisor's answer: %w", err)
		}
		return nil
	}
	var problem failure
	if err := json.Unmarshal(body, &problem); err != nil {
		return fmt.Errorf("the unit supervisor answered %s", response.Status)
	}
	if response.StatusCode == http.StatusNotFound {
		return &notFoundError{message: problem.Message}
	}
	return fmt.Errorf("unit supervisor: %s", problem.Message)
}

type notFoundError struct{ message string }

func (e *notFoundError) Error() string { return e.message }
func (e *notFoundError) Unwrap() error { return ErrNotFound }
