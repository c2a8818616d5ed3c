package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/hortus/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestGetShowsWhoAnswered(t *testing.T) {
	server := httptest.NewServer(handler("pod-1"))
	defer server.Close()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"get", server.URL + "/path?x=1"}, &out); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^pod-1 GET /path\?x=1 from 127\.0\.0\.1:\d+\n$`).MatchString(out.String()) {
		t.Errorf("get printed %q", out.String())
	}
}

func TestGetFailsUnlessOK(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := run(t.Context(), []string{"get", server.URL}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("get of a missing page = %v, want status 404", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"sing"}, {"get"}, {"get", "a", "b"}, {"serve", "--key", "a"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("run(%q) succeeded", args)
		}
	}
}
