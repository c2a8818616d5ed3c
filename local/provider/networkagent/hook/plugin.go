package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// supportedVersions of the CNI specification. All of them have CHECK; STATUS and GC came with the last.
var supportedVersions = []string{"0.4.0", "1.0.0", "1.1.0"}

// Codes of errors in the CNI specification, version 1.1.0, section 5.
const (
	codeIncompatibleVersion = 1
	codeInvalidEnvironment  = 4
	codeIOFailure           = 5
	codeDecodingFailure     = 6
	codeInvalidConfig       = 7
	codeTryAgainLater       = 11
	codeNotAvailable        = 50
)

const (
	// addPatience bounds the wait for an agent that starts, on a new node with the pods that need it. Kubelets give a
	// container runtime two minutes.
	addPatience = 60 * time.Second
	// shortPatience bounds the wait for the agent in commands that should not wait.
	shortPatience = 2 * time.Second
	// replyPatience is longer than the agent takes for a reply, even if that is an error.
	replyPatience = confineTimeout + ioTimeout
	retryInterval = 50 * time.Millisecond
)

// Plugin is one invocation of the CNI plugin.
type Plugin struct {
	Getenv func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Dial   func(socket string, timeout time.Duration) (net.Conn, error) // DialSocket, except in tests.
}

// DialSocket connects to a unix socket.
func DialSocket(socket string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("unix", socket, timeout)
}

// config is the part of the network configuration that the plugin reads.
type config struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	Socket     string          `json:"socket"` // Empty means SocketPath.
	PrevResult json.RawMessage `json:"prevResult"`
}

// failure is an error as CNI wants it printed.
type failure struct {
	CNIVersion string `json:"cniVersion,omitempty"`
	Code       int    `json:"code"`
	Msg        string `json:"msg"`
	Details    string `json:"details,omitempty"`
}

// Run carries out CNI_COMMAND and returns the exit status of the process.
//
//	ADD      reports the pod to the agent and prints the previous result once the pod's rules are in force. Without an
//	         agent for 60 seconds, or after an error of the agent, it fails with code 11, try again later.
//	CHECK    does the same, but waits for the agent for 2 seconds only.
//	DEL      reports to the agent that the pod's network is being removed. It never fails.
//	STATUS   fails with code 50 if there is no agent.
//	GC       does nothing: the agent forgets the networks of pods that are gone.
//	VERSION  prints the supported versions.
//
// Containers that are no pods of Kubernetes pass unchanged: no policy selects them.
func (p *Plugin) Run() int {
	cfg, out, err := p.run()
	if err != nil {
		if p.Getenv("CNI_COMMAND") == "DEL" {
			return 0
		}
		err.CNIVersion = cfg.CNIVersion
		out = mustEncode(err)
	}
	if _, writeErr := p.Stdout.Write(out); writeErr != nil || err != nil {
		return 1
	}
	return 0
}

func mustEncode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // Only strings and numbers: cannot happen.
	}
	return append(out, '\n')
}

func (p *Plugin) run() (config, []byte, *failure) {
	var cfg config
	name := p.Getenv("CNI_COMMAND")
	if name == "VERSION" {
		return cfg, mustEncode(map[string]any{
			"cniVersion": supportedVersions[len(supportedVersions)-1], "supportedVersions": supportedVersions,
		}), nil
	}
	input, err := io.ReadAll(p.Stdin)
	if err != nil {
		return cfg, nil, &failure{Code: codeIOFailure, Msg: "read network configuration", Details: err.Error()}
	}
	if err := json.Unmarshal(input, &cfg); err != nil {
		return cfg, nil, &failure{Code: codeDecodingFailure, Msg: "decode network configuration", Details: err.Error()}
	}
	if !slices.Contains(supportedVersions, cfg.CNIVersion) {
		return cfg, nil, &failure{Code: codeIncompatibleVersion, Msg: "incompatible CNI version", Details: fmt.Sprintf(
			"cniVersion: not supported: %q (available: %s)", cfg.CNIVersion, strings.Join(supportedVersions, ", "))}
	}
	if cfg.Name == "" {
		return cfg, nil, &failure{Code: codeInvalidConfig, Msg: "name: required"}
	}
	if cfg.Socket == "" {
		cfg.Socket = SocketPath
	}
	out, failed := p.execute(name, cfg)
	return cfg, out, failed
}

func (p *Plugin) execute(name string, cfg config) ([]byte, *failure) {
	switch {
	case name == "ADD" || name == "CHECK" || name == "DEL":
		return p.attachment(name, cfg)
	case cfg.CNIVersion == "1.1.0" && name == "GC":
		return nil, nil
	case cfg.CNIVersion == "1.1.0" && name == "STATUS":
		if err := p.send(cfg.Socket, request{Command: status}, shortPatience); err != nil {
			return nil, &failure{Code: codeNotAvailable, Msg: "the network agent does not answer", Details: err.Error()}
		}
		return nil, nil
	}
	return nil, &failure{Code: codeInvalidEnvironment, Msg: fmt.Sprintf("CNI_COMMAND: not supported: %q", name)}
}

// attachment executes the commands on one network of one container.
func (p *Plugin) attachment(name string, cfg config) ([]byte, *failure) {
	required := []string{"CNI_CONTAINERID", "CNI_IFNAME"}
	if name != "DEL" {
		required = append(required, "CNI_NETNS")
	}
	for _, variable := range required {
		if p.Getenv(variable) == "" {
			return nil, &failure{Code: codeInvalidEnvironment, Msg: variable + ": required"}
		}
	}
	args := arguments(p.Getenv("CNI_ARGS"))
	s := Sandbox{
		ContainerID: p.Getenv("CNI_CONTAINERID"),
		Namespace:   args["K8S_POD_NAMESPACE"], Name: args["K8S_POD_NAME"], UID: args["K8S_POD_UID"],
	}
	isPod := s.Namespace != "" && s.Name != ""
	if name == "DEL" {
		if isPod {
			_ = p.send(cfg.Socket, request{Command: release, Sandbox: s}, 0) // The agent forgets deleted pods anyway.
		}
		return nil, nil
	}
	var previous struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if len(cfg.PrevResult) == 0 {
		return nil, &failure{
			Code: codeInvalidConfig, Msg: "prevResult: required: the plugin must be chained after one that gives addresses",
		}
	}
	if err := json.Unmarshal(cfg.PrevResult, &previous); err != nil {
		return nil, &failure{Code: codeDecodingFailure, Msg: "decode prevResult", Details: err.Error()}
	}
	for _, ip := range previous.IPs {
		s.Addresses = append(s.Addresses, ip.Address.Addr().Unmap())
	}
	if isPod {
		patience := addPatience
		if name == "CHECK" {
			patience = shortPatience
		}
		if err := p.send(cfg.Socket, request{Command: confine, Sandbox: s}, patience); err != nil {
			return nil, &failure{
				Code: codeTryAgainLater, Msg: "the network agent has not applied the rules of the pod", Details: err.Error(),
			}
		}
	}
	if name == "CHECK" {
		return nil, nil
	}
	return append(slices.Clone(cfg.PrevResult), '\n'), nil
}

// arguments reads "A=1;B=2".
func arguments(text string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			out[key] = value
		}
	}
	return out
}

// errAgent is an error that the agent has reported, as opposed to a missing answer.
type errAgent string

func (e errAgent) Error() string { return string(e) }

// send sends the request until the agent answers, but starts no attempt later than patience after the first.
func (p *Plugin) send(socket string, r request, patience time.Duration) error {
	start := time.Now()
	for {
		err := p.try(socket, r)
		var answered errAgent
		if err == nil || errors.As(err, &answered) || time.Since(start)+retryInterval > patience {
			return err
		}
		time.Sleep(retryInterval)
	}
}

func (p *Plugin) try(socket string, r request) error {
	limit := replyPatience
	if r.Command != confine {
		limit = shortPatience
	}
	conn, err := p.Dial(socket, limit)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := conn.Write(mustEncode(r)); err != nil {
		return err
	}
	var answer reply
	switch err := json.NewDecoder(io.LimitReader(conn, messageBytes)).Decode(&answer); {
	case err != nil:
		return fmt.Errorf("read reply: %w", err)
	case answer.Error != "":
		return errAgent(answer.Error)
	case !answer.Done:
		return errors.New("the reply is empty")
	}
	return nil
}
