package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// maxRequestSize bounds the head of a CONNECT request: one line and a few headers.
const maxRequestSize = 8 << 10

// destinationHeaders are the accepted names of the header, in the form net/http stores them.
var destinationHeaders = []string{
	http.CanonicalHeaderKey("Reversed-VPN"), http.CanonicalHeaderKey("X-Gardener-Destination"),
}

// connectRequest is the result of parsing a request at the CONNECT port.
type connectRequest struct {
	destination Destination
	ok          bool   // Whether it is a CONNECT with exactly one valid destination.
	location    string // Redirect for all other requests: the same host and path, port 443. Empty if no host is known.
	early       []byte // Bytes that came with the request already.
}

// readConnect reads a request's head. Errors are those of the connection or of malformed HTTP.
func readConnect(conn io.Reader) (connectRequest, error) {
	r := bufio.NewReaderSize(io.LimitReader(conn, maxRequestSize), maxRequestSize)
	req, err := http.ReadRequest(r)
	if err != nil {
		return connectRequest{}, err
	}
	c := connectRequest{location: redirectLocation(req)}
	var values []string
	for _, h := range destinationHeaders {
		values = append(values, req.Header[h]...)
	}
	if req.Method == http.MethodConnect && len(values) == 1 {
		c.destination, c.ok = ParseDestination(values[0])
	}
	c.early, _ = r.Peek(r.Buffered())
	return c, nil
}

// plainHost matches host names and addresses without a port; anything else is not echoed.
var plainHost = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])$`)

func redirectLocation(req *http.Request) string {
	host := req.Host
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	if !plainHost.MatchString(host) {
		return ""
	}
	path := "/"
	if req.Method != http.MethodConnect && req.URL.Path != "" {
		path = req.URL.RequestURI()
	}
	return "https://" + host + path
}

// connectAnswer is the answer to a valid CONNECT request.
func connectAnswer(result string) string {
	reason := ""
	switch result {
	case resultRouted:
		return "HTTP/1.1 200 OK\r\n\r\n"
	case resultLimited:
		reason = "The control plane has too many connections. Try again later.\n"
	}
	return fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(reason), reason)
}

// redirect is the answer to everything but valid CONNECT requests.
func redirect(location string) string {
	if location == "" {
		return "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 301 Moved Permanently\r\nLocation: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		location)
}
