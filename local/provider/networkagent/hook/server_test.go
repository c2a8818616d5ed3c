package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve runs a server until the test ends, on a socket that replaces a stale file, and returns the path.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	s.Path = filepath.Join(t.TempDir(), "hortus", "agent.sock")
	if err := os.Mkdir(filepath.Dir(s.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, stale := range []string{s.Path, s.Path + ".new"} {
		if err := os.WriteFile(stale, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
	for {
		if conn, err := DialSocket(s.Path, time.Second); err == nil {
			_ = conn.Close()
			return s.Path
		}
		select {
		case err := <-done:
			t.Fatalf("Start() = %v", err)
		case <-t.Context().Done():
			t.Fatal("no server")
		case <-time.After(time.Millisecond):
		}
	}
}

// invoke runs the plugin for a pod against a real socket.
func invoke(socket, command, pod string) (int, string) {
	env := map[string]string{
		"CNI_COMMAND": command, "CNI_CONTAINERID": "c-" + pod, "CNI_NETNS": "n", "CNI_IFNAME": "eth0",
		"CNI_ARGS": "K8S_POD_NAMESPACE=x;K8S_POD_NAME=" + pod + ";K8S_POD_UID=u-" + pod,
	}
	var out bytes.Buffer
	p := &Plugin{
		Getenv: func(key string) string { return env[key] }, Stdout: &out, Dial: DialSocket,
		Stdin: strings.NewReader(fmt.Sprintf(`{"cniVersion":"1.0.0","name":"n","socket":%q,"prevResult":%s}`, socket,
			previousResult)),
	}
	return p.Run(), out.String()
}

func TestServer(t *testing.T) {
	var mu sync.Mutex
	confined := map[string]Sandbox{}
	socket := serve(t, &Server{
		Confine: func(ctx context.Context, s Sandbox) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > confineTimeout {
				t.Errorf("the request has deadline %v", deadline)
			}
			if s.Name == "bad" {
				return errors.New("no Pod")
			}
			mu.Lock()
			defer mu.Unlock()
			confined[s.ContainerID] = s
			return nil
		},
		Release: func(s Sandbox) {
			mu.Lock()
			defer mu.Unlock()
			delete(confined, s.ContainerID)
		},
	})
	if info, err := os.Stat(socket); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if code, out := invoke(socket, "ADD", fmt.Sprintf("p%d", i)); code != 0 || out != previousResult+"\n" {
				t.Errorf("ADD: %d, %s", code, out)
			}
		})
	}
	group.Wait()
	if len(confined) != 50 {
		t.Errorf("%d pods are confined, want 50", len(confined))
	}
	got := confined["c-p7"]
	if got.Namespace != "x" || got.Name != "p7" || got.UID != "u-p7" ||
		got.Addresses[0] != netip.MustParseAddr("10.0.0.7") {
		t.Errorf("sandbox %+v", got)
	}
	if code, out := invoke(socket, "ADD", "bad"); code != 1 || !strings.Contains(out, "no Pod") {
		t.Errorf("ADD: %d, %s", code, out)
	}
	if code, out := invoke(socket, "DEL", "p7"); code != 0 || out != "" {
		t.Errorf("DEL: %d, %s", code, out)
	}
	if _, ok := confined["c-p7"]; ok {
		t.Error("the pod is confined after DEL")
	}
}

func TestServerRefuses(t *testing.T) {
	socket := serve(t, &Server{
		Confine: func(context.Context, Sandbox) error { return errors.New(strings.Repeat("\n", messageBytes)) },
		Release: func(Sandbox) { t.Error("release is called") },
	})
	many := strings.Repeat(`"10.0.0.1",`, addressesLimit) + `"10.0.0.1"`
	for name, tc := range map[string]struct{ request, want string }{
		"what is no JSON": {"hello", "read request"},
		"unknown commands": {
			`{"command":"x","sandbox":{"containerID":"c","namespace":"x","name":"a"}}`, `unknown command "x"`,
		},
		"requests without ID": {`{"command":"release","sandbox":{"namespace":"x","name":"a"}}`, "must have 1 to"},
		"long names": {
			`{"command":"release","sandbox":{"containerID":"c","namespace":"x","name":"` + strings.Repeat("a", nameLength+1) +
				`"}}`, "must have 1 to",
		},
		"many addresses": {
			`{"command":"release","sandbox":{"containerID":"c","namespace":"x","name":"a","addresses":[` + many + `]}}`,
			"too long",
		},
		"large requests": {`{"command":"` + strings.Repeat("a", messageBytes), "read request: unexpected EOF"},
		"with errors that fit a reply": {
			`{"command":"confine","sandbox":{"containerID":"c","namespace":"x","name":"a"}}`, "\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := DialSocket(socket, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			go func() {
				_, _ = io.WriteString(conn, tc.request)
				_ = conn.(*net.UnixConn).CloseWrite()
			}()
			var answer reply
			if err := json.NewDecoder(io.LimitReader(conn, messageBytes)).Decode(&answer); err != nil {
				t.Fatal(err)
			}
			if answer.Done || !strings.Contains(answer.Error, tc.want) {
				t.Errorf("reply %+v, want %q", answer, tc.want)
			}
		})
	}
}

// TestServerEnds: requests that are being served when the server ends fail, and later connections are refused.
func TestServerEnds(t *testing.T) {
	s := &Server{Path: filepath.Join(t.TempDir(), "s")}
	ctx, cancel := context.WithCancel(t.Context())
	var serving atomic.Int32
	s.Confine = func(ctx context.Context, _ Sandbox) error {
		serving.Add(1)
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	result := make(chan error, 1)
	go func() { result <- s.Start(ctx) }()
	if code, out := invoke(s.Path, "ADD", "a"); code != 1 || !strings.Contains(out, context.Canceled.Error()) {
		t.Errorf("ADD: %d, %s", code, out)
	}
	if err := <-result; err != nil {
		t.Errorf("Start() = %v", err)
	}
	if _, err := DialSocket(s.Path, time.Second); err == nil {
		t.Error("the server responds after its end")
	}
	if got := serving.Load(); got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
}
