package oci

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	clocktesting "k8s.io/utils/clock/testing"
)

const user, password = "reader", "hush-hush"

// server is a registry with TLS that requests a password.
type server struct {
	*httptest.Server
	requests atomic.Int64
	broken   atomic.Bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	content := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := &server{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if s.broken.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		content.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	return s
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "https://") }

func (s *server) source(reference string) Source {
	return Source{
		Reference:    s.host() + "/" + reference,
		DockerConfig: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, s.URL, user, password),
		CABundle:     pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
}

// push stores an image with one layer and returns its digest.
func (s *server) push(t *testing.T, reference string, layer []byte, kind types.MediaType) v1.Hash {
	t.Helper()
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: static.NewLayer(layer, kind), MediaType: kind})
	if err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(s.host() + "/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(to, image, remote.WithTransport(s.Client().Transport),
		remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestPull(t *testing.T) {
	s := newServer(t)
	chart := []byte("a chart")
	digest := s.push(t, "charts/dns:1.0.0", chart, ChartMediaType)
	s.push(t, "charts/image:1.0.0", []byte("no chart"), types.DockerLayer)
	s.push(t, "charts/large:1.0.0", make([]byte, maxSize+1), ChartMediaType)
	place := func(reference string) func(*Source) { return func(o *Source) { o.Reference = reference } }
	ca := func(bundle string) func(*Source) { return func(o *Source) { o.CABundle = []byte(bundle) } }
	credentials := func(old, by string) func(*Source) {
		return func(o *Source) { o.DockerConfig = bytes.ReplaceAll(o.DockerConfig, []byte(old), []byte(by)) }
	}
	none, broken := func(o *Source) { o.DockerConfig = nil }, func(o *Source) { o.DockerConfig = []byte("hush") }
	const dns = "charts/dns:1.0.0"
	for name, tc := range map[string]struct {
		reference string
		change    func(*Source)
		want      string // Part of the error; empty: the chart.
	}{
		"a tag":                      {dns, nil, ""},
		"a digest":                   {"charts/dns@" + digest.String(), nil, ""},
		"both":                       {dns + "@" + digest.String(), nil, ""},
		"with the scheme of Helm":    {"", place("oci://" + s.host() + "/" + dns), ""},
		"an unknown tag":             {"charts/dns:2.0.0", nil, "MANIFEST_UNKNOWN"},
		"an unknown repository":      {"charts/ntp:1.0.0", nil, "NAME_UNKNOWN"},
		"an image":                   {"charts/image:1.0.0", nil, "it is no chart"},
		"too large":                  {"charts/large:1.0.0", nil, "at most 10485760"},
		"no valid reference":         {"charts/DNS:1.0.0", nil, "could not parse reference"},
		"an unreachable registry":    {"", place("127.0.0.1:1/dns:1"), "refused"},
		"a registry without TLS":     {"", place(plain(t) + "/dns:1"), "with TLS only"},
		"no credentials":             {dns, none, "401"},
		"broken credentials":         {dns, broken, ".dockerconfigjson"},
		"the wrong password":         {dns, credentials(password, "open"), "401"},
		"credentials of a path":      {dns, credentials(s.URL, s.URL+"/charts"), ""},
		"credentials of other path":  {dns, credentials(s.URL, s.URL+"/images"), "401"},
		"credentials of a like host": {dns, credentials(s.URL, s.URL[:len(s.URL)-1]), "401"},
		"an unknown CA":              {dns, ca(""), "certificate"},
		"a broken CA":                {dns, ca("x"), "no certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			source := s.source(tc.reference)
			if tc.change != nil {
				tc.change(&source)
			}
			p := &Puller{Clock: clocktesting.NewFakePassiveClock(time.Now())}
			got, err := p.Pull(t.Context(), "me", source)
			switch {
			case tc.want == "" && (err != nil || !bytes.Equal(got.Archive, chart) || got.Stale != nil):
				t.Errorf("got %d bytes, stale: %v; %v", len(got.Archive), got.Stale, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q in it", err, tc.want)
			case err != nil && strings.Contains(err.Error(), password):
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

// plain is a registry without TLS.
func plain(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestChartsAreKept(t *testing.T) {
	s := newServer(t)
	first := s.push(t, "charts/dns:1.0.0", []byte("first"), ChartMediaType)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	p := &Puller{Clock: clock}
	stale := "" // Part of why the chart is stale; empty: it is not.
	pull := func(owner, reference, want string, asks bool) {
		t.Helper()
		before := s.requests.Load()
		got, err := p.Pull(t.Context(), owner, s.source(reference))
		if err != nil || string(got.Archive) != want {
			t.Errorf("%s: got %q, %v; want %q", reference, got.Archive, err, want)
		}
		if (got.Stale != nil) != (stale != "") || got.Stale != nil && !strings.Contains(got.Stale.Error(), stale) {
			t.Errorf("%s: stale because of %v, want %q in it", reference, got.Stale, stale)
		}
		if asked := s.requests.Load() > before; asked != asks {
			t.Errorf("%s: the registry was called: %t, want %t", reference, asked, asks)
		}
	}
	fixed := "charts/dns@" + first.String()
	pull("a", "charts/dns:1.0.0", "first", true)
	pull("b", fixed, "first", true)

	s.push(t, "charts/dns:1.0.0", []byte("second"), ChartMediaType)
	pull("a", "charts/dns:1.0.0", "first", false)
	clock.SetTime(clock.Now().Add(ResolvePeriod))
	pull("a", "charts/dns:1.0.0", "second", true)
	pull("b", fixed, "first", false)

	s.broken.Store(true)
	clock.SetTime(clock.Now().Add(ResolvePeriod))
	stale = "charts/dns:1.0.0"
	pull("a", "charts/dns:1.0.0", "second", true)
	pull("a", "charts/dns:1.0.0", "second", false)
	stale = "" // A digest names the same chart forever.
	pull("b", fixed, "first", false)
	if _, err := p.Pull(t.Context(), "a", s.source("charts/dns:2.0.0")); err == nil {
		t.Error("another reference has the chart of the one before")
	}
	s.broken.Store(false)
	clock.SetTime(clock.Now().Add(ResolvePeriod))
	pull("a", "charts/dns:1.0.0", "second", true)
	p.Forget("b")
	pull("b", fixed, "first", true)
}

func TestPlace(t *testing.T) {
	for key, want := range map[string]string{
		"https://index.docker.io/v1/":     "index.docker.io",
		"docker.io":                       "index.docker.io",
		"docker.io/library":               "index.docker.io/library",
		"docker.io.example.org":           "docker.io.example.org",
		"registry.example.org":            "registry.example.org",
		"http://registry.example.org/":    "registry.example.org",
		"registry.example.org:5000/a/b":   "registry.example.org:5000/a/b",
		"https://registry.example.org/v2": "registry.example.org",
	} {
		if got := place(key); got != want {
			t.Errorf("place(%q) = %q, want %q", key, got, want)
		}
	}
}
