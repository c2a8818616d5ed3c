package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// agent fakes the agent's end of connections.
type agent struct {
	replies  []string // For one connection each, the last one for all that follow. Empty: it closes the connection.
	dials    atomic.Int32
	requests chan request
}

// dial fails while the agent is absent.
func (a *agent) dial(string, time.Duration) (net.Conn, error) {
	if len(a.replies) == 0 {
		return nil, errors.New("no such file")
	}
	answer := a.replies[min(int(a.dials.Add(1)), len(a.replies))-1]
	client, server := net.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		var r request
		if json.NewDecoder(server).Decode(&r) == nil {
			a.requests <- r
			_, _ = io.WriteString(server, answer)
		}
	}()
	return client, nil
}

const (
	previousResult = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.0.0.7/24","interface":0},{"address":"fd00::7/64"}],"dns":{}}`
	configuration  = `{"cniVersion":"1.0.0","name":"hortus","type":"hortus-policy","prevResult":` + previousResult + `}`
	done           = `{"done":true}`
)

func TestPlugin(t *testing.T) {
	pod := Sandbox{ContainerID: "c1", Namespace: "x", Name: "a", UID: "u1"}
	confined := pod
	confined.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}
	for name, tc := range map[string]struct {
		env    map[string]string // In addition to that of pod a; empty values remove variables.
		input  string            // Default: configuration.
		agent  []string
		want   string // Output; with "code": part of it.
		status int
		sent   []request
		after  time.Duration
	}{
		"ADD prints the previous result when the rules are in force": {
			agent: []string{done}, want: previousResult + "\n", sent: []request{{confine, confined}},
		},
		"ADD retries if the agent ends before it replies": {
			agent: []string{"", "{}", done}, want: previousResult + "\n",
			sent: []request{{confine, confined}, {confine, confined}, {confine, confined}}, after: 2 * retryInterval,
		},
		"ADD fails with an error of the agent": {
			agent: []string{`{"error":"no Pod"}`}, status: 1, sent: []request{{confine, confined}},
			want: `{"cniVersion":"1.0.0","code":11,"msg":"the network agent has not applied the rules of the pod","details":"no Pod"}`,
		},
		"ADD fails without agent after a minute": {
			status: 1, want: `"code":11,"msg":"the network agent has not applied the rules of the pod","details":"no such file"`,
			after: addPatience,
		},
		"ADD of a sandbox without a pod passes": {
			env: map[string]string{"CNI_ARGS": ""}, want: previousResult + "\n",
		},
		"ADD of a pod without UID": {
			env: map[string]string{"CNI_ARGS": "K8S_POD_NAMESPACE=x;K8S_POD_NAME=a"}, agent: []string{done},
			want: previousResult + "\n", sent: []request{
				{confine, Sandbox{ContainerID: "c1", Namespace: "x", Name: "a", Addresses: confined.Addresses}},
			},
		},
		"ADD must be chained": {
			input: `{"cniVersion":"1.0.0","name":"hortus"}`, status: 1, want: `"code":7,"msg":"prevResult: required`,
		},
		"ADD with a previous result that does not parse": {
			input: `{"cniVersion":"1.0.0","name":"hortus","prevResult":{"ips":[{"address":"x"}]}}`, status: 1, want: `"code":6`,
		},
		"ADD without container": {
			env: map[string]string{"CNI_CONTAINERID": ""}, status: 1, want: `"code":4,"msg":"CNI_CONTAINERID: required"`,
		},
		"ADD without network namespace": {
			env: map[string]string{"CNI_NETNS": ""}, status: 1, want: `"code":4,"msg":"CNI_NETNS: required"`,
		},
		"ADD without interface": {
			env: map[string]string{"CNI_IFNAME": ""}, status: 1, want: `"code":4,"msg":"CNI_IFNAME: required"`,
		},
		"no configuration": {input: "{", status: 1, want: `"code":6`},
		"no name": {
			input: `{"cniVersion":"1.0.0"}`, status: 1, want: `"code":7,"msg":"name: required"`,
		},
		"another version": {
			input: `{"cniVersion":"0.3.1","name":"hortus"}`, status: 1,
			want: `not supported: \"0.3.1\" (available: 0.4.0, 1.0.0, 1.1.0)`,
		},
		"no command": {env: map[string]string{"CNI_COMMAND": ""}, status: 1, want: `"code":4`},
		"unknown command": {
			env: map[string]string{"CNI_COMMAND": "FETCH"}, status: 1,
			want: `"code":4,"msg":"CNI_COMMAND: not supported: \"FETCH\""`,
		},
		"DEL notifies the agent": {
			env: map[string]string{"CNI_COMMAND": "DEL", "CNI_NETNS": ""}, agent: []string{done},
			sent: []request{{release, pod}},
		},
		"DEL does not wait for an agent": {env: map[string]string{"CNI_COMMAND": "DEL"}},
		"DEL ignores errors of the agent": {
			env: map[string]string{"CNI_COMMAND": "DEL"}, agent: []string{`{"error":"x"}`}, sent: []request{{release, pod}},
		},
		"DEL ignores a broken configuration": {env: map[string]string{"CNI_COMMAND": "DEL"}, input: "{"},
		"DEL ignores missing variables":      {env: map[string]string{"CNI_COMMAND": "DEL", "CNI_CONTAINERID": ""}},
		"DEL of what is no pod": {
			env: map[string]string{"CNI_COMMAND": "DEL", "CNI_ARGS": ""}, agent: []string{done},
		},
		"CHECK calls the agent": {
			env: map[string]string{"CNI_COMMAND": "CHECK"}, agent: []string{done}, sent: []request{{confine, confined}},
		},
		"CHECK fails soon": {
			env: map[string]string{"CNI_COMMAND": "CHECK"}, status: 1, want: `"code":11`, after: shortPatience,
		},
		"VERSION needs nothing": {
			env: map[string]string{"CNI_COMMAND": "VERSION", "CNI_CONTAINERID": ""}, input: "-",
			want: `{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}` + "\n",
		},
		"STATUS with an agent": {
			env: map[string]string{"CNI_COMMAND": "STATUS"}, input: `{"cniVersion":"1.1.0","name":"hortus"}`,
			agent: []string{done}, sent: []request{{Command: status}},
		},
		"STATUS without agent": {
			env: map[string]string{"CNI_COMMAND": "STATUS"}, input: `{"cniVersion":"1.1.0","name":"hortus"}`,
			status: 1, want: `{"cniVersion":"1.1.0","code":50,`, after: shortPatience,
		},
		"GC": {
			env: map[string]string{"CNI_COMMAND": "GC"}, input: `{"cniVersion":"1.1.0","name":"hortus"}`,
		},
		"STATUS came with 1.1.0": {env: map[string]string{"CNI_COMMAND": "STATUS"}, status: 1, want: `"code":4`},
		"GC came with 1.1.0":     {env: map[string]string{"CNI_COMMAND": "GC"}, status: 1, want: `"code":4`},
		"an agent that never replies": {
			agent: []string{"never"}, status: 1, want: `"code":11`, after: addPatience, sent: nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := map[string]string{
					"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/a", "CNI_IFNAME": "eth0",
					"CNI_PATH": "/opt/cni/bin",
					"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=x;K8S_POD_NAME=a;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1",
				}
				maps.Copy(env, tc.env)
				input := tc.input
				if input == "" {
					input = configuration
				}
				fake := &agent{replies: tc.agent, requests: make(chan request, 2000)}
				var out bytes.Buffer
				p := &Plugin{Getenv: func(key string) string { return env[key] }, Stdin: strings.NewReader(input), Stdout: &out,
					Dial: fake.dial}
				start := time.Now()
				if got := p.Run(); got != tc.status {
					t.Errorf("exit status %d, want %d", got, tc.status)
				}
				if took := time.Since(start); took != tc.after {
					t.Errorf("that took %v, want %v", took, tc.after)
				}
				if tc.status == 0 && out.String() != tc.want || !strings.Contains(out.String(), tc.want) {
					t.Errorf("output %s, want %s", out.String(), tc.want)
				}
				if tc.status != 0 && !json.Valid(out.Bytes()) {
					t.Errorf("output is no JSON: %s", out.String())
				}
				close(fake.requests)
				var sent []request
				for r := range fake.requests {
					sent = append(sent, r)
				}
				if name == "an agent that never replies" {
					return // The plugin repeats its request.
				}
				if diff := cmp.Diff(tc.sent, sent, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
					t.Errorf("requests mismatch (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPluginWaitsForTheAgent starts the agent half a minute after the pod; at first the agent hangs.
func TestPluginWaitsForTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		fake := &agent{replies: []string{done}, requests: make(chan request, 1)}
		hanging := true
		var out bytes.Buffer
		p := &Plugin{
			Getenv: func(key string) string {
				return map[string]string{
					"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "n", "CNI_IFNAME": "eth0",
					"CNI_ARGS": "K8S_POD_NAMESPACE=x;K8S_POD_NAME=a",
				}[key]
			},
			Stdin: strings.NewReader(configuration), Stdout: &out,
			Dial: func(socket string, timeout time.Duration) (net.Conn, error) {
				switch {
				case socket != SocketPath:
					t.Errorf("socket %s", socket)
				case time.Since(start) < 30*time.Second:
					return nil, errors.New("connection refused")
				case hanging:
					hanging = false
					client, _ := net.Pipe() // Neither end reads or writes.
					return client, nil
				}
				return fake.dial(socket, timeout)
			},
		}
		if got := p.Run(); got != 0 {
			t.Errorf("exit status %d: %s", got, out.String())
		}
		if took, want := time.Since(start), 30*time.Second+replyPatience+retryInterval; took != want {
			t.Errorf("that took %v, want %v", took, want)
		}
	})
}
