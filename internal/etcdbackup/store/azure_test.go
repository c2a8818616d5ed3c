package store

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// azureValues are credentials for a server that implements the part of Azure Blob Storage that the store needs.
func azureValues(t *testing.T) map[string]string {
	t.Helper()
	server := httptest.NewServer(&azureServer{blobs: map[string][]byte{}, blocks: map[string][]byte{}})
	t.Cleanup(server.Close)
	return map[string]string{
		"storageAccount": "a", "storageKey": base64.StdEncoding.EncodeToString([]byte(secret)), "bucketName": "c",
		"endpoint": server.URL,
	}
}

// azureServer stores blobs of one container, as documented in the REST API "Blob service".
type azureServer struct {
	mu            sync.Mutex
	blobs, blocks map[string][]byte
}

func (s *azureServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		http.Error(w, "<?xml version=\"1.0\"?><Error><Code>"+code+"</Code></Error>", status)
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey a:") {
		fail(http.StatusForbidden, "AuthenticationFailed")
		return
	}
	key, query := strings.TrimPrefix(r.URL.Path, "/c/"), r.URL.Query()
	data, exists := s.blobs[key]
	switch {
	case r.Method == http.MethodGet && query.Get("comp") == "list":
		s.list(w, query.Get("prefix"))
	case r.Method == http.MethodPut && query.Get("comp") == "block":
		s.blocks[key+query.Get("blockid")], _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut && exists && r.Header.Get("If-None-Match") == "*":
		fail(http.StatusConflict, "BlobAlreadyExists")
	case r.Method == http.MethodPut && query.Get("comp") == "blocklist":
		var list struct{ Latest []string }
		if err := xml.NewDecoder(r.Body).Decode(&list); err != nil {
			fail(http.StatusBadRequest, "InvalidXmlDocument")
			return
		}
		var whole []byte
		for _, id := range list.Latest {
			whole = append(whole, s.blocks[key+id]...)
		}
		s.blobs[key] = whole
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodPut:
		s.blobs[key], _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
	case !exists:
		fail(http.StatusNotFound, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(s.blobs, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("x-ms-range") != "" {
			r.Header.Set("Range", r.Header.Get("x-ms-range"))
		}
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(data))
	}
}

func (s *azureServer) list(w http.ResponseWriter, prefix string) {
	var names []string
	for name := range s.blobs {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
	for _, name := range names {
		fmt.Fprintf(w,
			"<Blob><Name>%s</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>1</Etag>"+
				"<Content-Length>%d</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>", name, len(s.blobs[name]))
	}
	fmt.Fprint(w, "</Blobs><NextMarker/></EnumerationResults>")
}
