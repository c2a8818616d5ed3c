package boundedlist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cluster has objects of some sizes in bytes and responds like a connection prepared by Bound.
type cluster struct {
	client.Reader
	sizes  []int64
	limits []int64 // Limits of the requests.
	// endless announces one empty page after the other.
	endless bool
	// err is the error of a list.
	err error
}

func (c *cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	c.limits = append(c.limits, o.Limit)
	if c.err != nil {
		return c.err
	}
	if c.endless {
		list.SetContinue("x")
		return nil
	}
	from := len(o.Continue) // The continue token has a character per object that has been read.
	to := min(from+int(o.Limit), len(c.sizes))
	response := &body{left: MaxResponse, budget: budgetOf(ctx)}
	for _, size := range c.sizes[from:to] {
		response.ReadCloser = read{size}
		if _, err := response.Read(nil); err != nil {
			return errors.Join(errors.New("unexpected error when reading response body"), err)
		}
	}
	list.(*corev1.NodeList).Items = make([]corev1.Node, to-from)
	if to < len(c.sizes) {
		list.SetContinue(strings.Repeat("x", to))
	}
	return nil
}

type read struct{ n int64 }

func (r read) Read([]byte) (int, error) { return int(r.n), nil }
func (r read) Close() error             { return nil }

func objects(n int, size int64) []int64 {
	var sizes []int64
	for range n {
		sizes = append(sizes, size)
	}
	return sizes
}

func TestRead(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	for name, tc := range map[string]struct {
		cluster cluster
		limits  Limits
		stopAt  int // Stops after the page with which this number of objects is reached.
		visited int
		err     string
		pages   []int64
	}{
		"nothing":  {pages: []int64{50}},
		"one page": {cluster: cluster{sizes: objects(50, kib)}, visited: 50, pages: []int64{50}},
		"small objects, larger pages": {
			cluster: cluster{sizes: objects(2000, kib)}, visited: 2000,
			pages: []int64{50, 100, 200, 400, 500, 500, 500},
		},
		"objects of medium size": {cluster: cluster{sizes: objects(150, 40*kib)}, visited: 150, pages: []int64{50, 50, 50}},
		"large objects, smaller pages": {
			cluster: cluster{sizes: objects(6, 3*mib)}, visited: 6,
			pages: []int64{50, 25, 12, 6, 3, 1, 1, 1, 1, 1, 1},
		},
		"an object that is too large": {
			cluster: cluster{sizes: objects(1, MaxResponse+1)}, err: "one of more than 4 MiB",
			pages: []int64{50, 25, 12, 6, 3, 1},
		},
		"an object of the maximum size": {cluster: cluster{sizes: objects(1, MaxResponse)}, visited: 1, pages: []int64{50}},
		"pages grow again": {
			cluster: cluster{sizes: append(objects(2, 3*mib), objects(100, kib)...)}, visited: 102,
			pages: []int64{50, 25, 12, 6, 3, 1, 1, 1, 2, 4, 8, 16, 32, 64},
		},
		"too many bytes": {
			cluster: cluster{sizes: objects(200, 30*kib)}, limits: Limits{Bytes: 4 * mib}, visited: 100, err: "more than 4 MiB",
			pages: []int64{50, 50, 50},
		},
		"just enough bytes": {
			cluster: cluster{sizes: objects(64, 64*kib)}, limits: Limits{Bytes: 4 * mib}, visited: 64,
			pages: []int64{50, 50},
		},
		"bytes that were cut off": {
			cluster: cluster{sizes: objects(50, mib)}, limits: Limits{Bytes: 12 * mib}, err: "more than 12 MiB",
			pages: []int64{50, 25, 12},
		},
		"too many objects": {
			cluster: cluster{sizes: objects(151, kib)}, limits: Limits{Objects: 150}, visited: 150, err: "more than 150",
			pages: []int64{50, 100, 200},
		},
		"as many objects as allowed": {
			cluster: cluster{sizes: objects(150, kib)}, limits: Limits{Objects: 150}, visited: 150,
			pages: []int64{50, 100},
		},
		"enough has been seen": {
			cluster: cluster{sizes: objects(1000, kib)}, stopAt: 150, visited: 150, pages: []int64{50, 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			visited := 0
			err := Read(t.Context(), &tc.cluster, tc.limits, &corev1.NodeList{}, func(page *corev1.NodeList) (bool, error) {
				visited += len(page.Items)
				return tc.stopAt == 0 || visited < tc.stopAt, nil
			})
			message := ""
			if much := (*TooMuchError)(nil); errors.As(err, &much) {
				message = much.Error()
			} else if err != nil {
				t.Fatal(err)
			}
			if visited != tc.visited || message != tc.err {
				t.Errorf("visited %d objects, error %q, want %d and %q", visited, message, tc.visited, tc.err)
			}
			if diff := cmp.Diff(tc.pages, tc.cluster.limits); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadEnds(t *testing.T) {
	c := &cluster{endless: true}
	err := Read(t.Context(), c, Limits{}, &corev1.NodeList{}, func(*corev1.NodeList) (bool, error) { return true, nil })
	if much := (*TooMuchError)(nil); !errors.As(err, &much) || len(c.limits) != maxRequests {
		t.Errorf("after %d requests: %v", len(c.limits), err)
	}
	wrong := errors.New("no")
	err = Read(t.Context(), &cluster{}, Limits{}, &corev1.NodeList{},
		func(*corev1.NodeList) (bool, error) { return true, wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("error = %v", err)
	}
}

// TestOtherResponsesAreNoPages: other responses that a list needs may be too large, too, which smaller pages do not
// change.
func TestOtherResponsesAreNoPages(t *testing.T) {
	c := &cluster{err: fmt.Errorf("request the kinds: %w", responseError{})}
	err := Read(t.Context(), c, Limits{}, &corev1.NodeList{}, func(*corev1.NodeList) (bool, error) { return true, nil })
	if !errors.As(err, &responseError{}) {
		t.Errorf("error = %v", err)
	}
}
