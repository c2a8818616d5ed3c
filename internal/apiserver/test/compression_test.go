package test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/test/env"
)

func TestLargeAnswersArePacked(t *testing.T) {
	e := env.Shared(t)
	const path = "/apis/core.gardener.cloud/v1beta1/controllerregistrations"
	label := env.Name("packed-")
	for range 6 { // Together above 128 KiB.
		e.Create(t, &corev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{
			Name: env.Name("packed-"), Labels: map[string]string{"test": label},
			Annotations: map[string]string{"test": strings.Repeat("some text ", 2500)},
		}})
	}
	config := rest.CopyConfig(e.Config)
	config.DisableCompression = true // The transport would hide the compression.
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	get := func(query string, accept string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(e.Config.Host,
			"/")+path+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", accept)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	all := "?labelSelector=test%3D" + label

	packed := get(all, "gzip")
	if got := packed.Header.Values("Content-Encoding"); len(got) != 1 || got[0] != "gzip" {
		t.Fatalf("a large list comes as %q with %s, want gzip once", got, packed.Status)
	}
	reader, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := countItems(reader); err != nil || n != 6 {
		t.Errorf("the compressed list has %d objects: %v", n, err)
	}
	for what, response := range map[string]*http.Response{
		"a list for a client without compression": get(all, "identity"),
		"a small list": get(all+"&limit=1", "gzip"),
		"a watch": get(all+
			"&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=30",
			"gzip"),
	} {
		if got := response.Header.Get("Content-Encoding"); got != "" || response.StatusCode != http.StatusOK {
			t.Errorf("%s comes with status %d as %q, want it uncompressed", what, response.StatusCode, got)
		}
	}
}

func countItems(body io.Reader) (int, error) {
	list := &corev1beta1.ControllerRegistrationList{}
	if err := json.NewDecoder(body).Decode(list); err != nil {
		return 0, fmt.Errorf("read list: %w", err)
	}
	return len(list.Items), nil
}
