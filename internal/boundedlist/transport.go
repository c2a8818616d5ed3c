package boundedlist

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// MaxResponse bounds one response, in bytes. Etcd takes objects of 1.5 MiB, which have up to twice that in JSON, where
// quotes and backslashes are escaped. An object with more is one that its owner has made up, full of "<", which takes 6
// bytes.
const MaxResponse = 4 << 20

// Bound prepares the connection to a cluster: responses end with an error at MaxResponse, and lists are counted for
// Read. It requests JSON, in which it writes out empty fields: a list of empty conditions has 2 bytes each
// in protobuf, 75 in JSON, and 130 in memory. Watches are left alone.
func Bound(config *rest.Config) {
	config.ContentType = runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
}

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols || req.URL.Query().Get("watch") == "true" {
		return resp, err
	}
	resp.Body = &body{ReadCloser: resp.Body, left: MaxResponse, budget: budgetOf(req.Context())}
	return resp, nil
}

// WrappedRoundTripper is for client-go, which looks through wrappers for what closes connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// responseError is what reading a response ends with that is too large. budget is that of the Read which has requested
// it, nil if it was for something else, such as the kinds that the cluster has.
type responseError struct{ budget *budget }

func (responseError) Error() string {
	return fmt.Sprintf("the response has more than %s", size(MaxResponse))
}

// budgetError is what reading a response ends with when all responses of a Read have had their bytes.
type budgetError struct{}

func (budgetError) Error() string { return "the responses have more bytes than may be read" }

// body is that of a response, up to its limits.
type body struct {
	io.ReadCloser
	left   int64
	budget *budget // Nil without one.
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.budget != nil && b.budget.take(n) {
		return 0, budgetError{}
	}
	if b.left < 0 {
		return 0, responseError{b.budget}
	}
	return n, err
}

// budget is how many bytes the responses of one Read may have together. Its requests follow each other.
type budget struct{ limit, read int64 }

// take counts n bytes and reports whether they are too many.
func (b *budget) take(n int) bool {
	b.read += int64(n)
	return b.limit > 0 && b.read > b.limit
}

type budgetKey struct{}

func withBudget(ctx context.Context, b *budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

func budgetOf(ctx context.Context) *budget {
	b, _ := ctx.Value(budgetKey{}).(*budget)
	return b
}

// size prints a number of bytes that is a multiple of 1 MiB.
func size(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
