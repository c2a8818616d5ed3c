package bench

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

func TestOnlyHarmlessServersAreLoaded(t *testing.T) {
	lookup := func(_ context.Context, _, host string) ([]netip.Addr, error) {
		switch host {
		case "localhost":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, nil
		case "both.example.com":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")}, nil
		case "production.example.com":
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		}
		return nil, errors.New("no such host")
	}
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443":         true,
		"https://[::1]:6443":             true,
		"https://[::ffff:127.0.0.1]:443": true,
		"https://localhost:6443":         true,
		"https://198.18.8.1":             true,
		"https://198.20.0.1":             false,
		"https://10.0.0.1":               false,
		"https://both.example.com":       false,
		"https://production.example.com": false,
		"https://unknown.example.com":    false,
		"127.0.0.1:6443":                 false,
		"":                               false,
	} {
		if err := harmless(t.Context(), server, lookup); (err == nil) != want {
			t.Errorf("server %q: %v, want harmless %t", server, err, want)
		}
	}
}

func TestOptionsAreBounded(t *testing.T) {
	good := APIOptions{Shoots: []int{1000}, Clients: 16, Watchers: 10}
	if err := good.validate(); err != nil {
		t.Errorf("defaults are refused: %v", err)
	}
	for name, change := range map[string]func(*APIOptions){
		"no numbers":       func(o *APIOptions) { o.Shoots = nil },
		"no Shoots":        func(o *APIOptions) { o.Shoots = []int{0} },
		"too many Shoots":  func(o *APIOptions) { o.Shoots = []int{1000, maxShoots + 1} },
		"no clients":       func(o *APIOptions) { o.Clients = 0 },
		"too many clients": func(o *APIOptions) { o.Clients = maxClients + 1 },
		"no watchers":      func(o *APIOptions) { o.Watchers = 0 },
	} {
		bad := good
		change(&bad)
		if bad.validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
