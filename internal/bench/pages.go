package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// eachPage reads a collection in pages and passes each to a function.
func eachPage(ctx context.Context, c *jsonClient, path string, page func([]byte) error) (int64, error) {
	var size int64
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		answer, err := c.start(ctx, http.MethodGet, path+"?"+query.Encode(), "", nil)
		if err != nil {
			return size, err
		}
		data, err := io.ReadAll(answer)
		answer.Close()
		if err != nil {
			return size, fmt.Errorf("read page of %s: %w", path, err)
		}
		size += int64(len(data))
		if err := page(data); err != nil {
			return size, err
		}
		next := continuation(data)
		if next == "" {
			return size, nil
		}
		query.Set("continue", next)
	}
}

// continuation returns the token for the next page. It stands in the list's metadata in front of the items; decoding a
// whole page to find it would load the client more than the server.
func continuation(page []byte) string {
	head, _, _ := bytes.Cut(page, []byte(`"items":`))
	_, rest, found := bytes.Cut(head, []byte(`"continue":"`))
	if !found {
		return ""
	}
	token, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(token)
}
