package hook

import (
	"errors"
	"fmt"
	"net/netip"
)

const (
	// SocketPath is the agent's socket.
	SocketPath = "/run/hortus/network-agent.sock"
	// PluginName is the type of the plugin in CNI configurations, and the name of its file.
	PluginName = "hortus-policy"
)

// Sandbox is the network of a pod, as the container runtime has made it.
type Sandbox struct {
	ContainerID string `json:"containerID"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	// UID of the Pod as the kubelet knows it. For a static pod that is not the UID in the API server. Empty: not known.
	UID       string       `json:"uid,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// Limits of the requests that the agent reads. A namespace has at most 63 characters, a name 253; container runtimes
// use 64 for IDs, and a pod has an address per IP family.
const (
	nameLength     = 253
	addressesLimit = 16
	messageBytes   = 16 << 10
)

func (s Sandbox) check() error {
	for _, text := range []string{s.ContainerID, s.Namespace, s.Name} {
		if text == "" || len(text) > nameLength {
			return fmt.Errorf("container ID, namespace and name must have 1 to %d characters", nameLength)
		}
	}
	if len(s.UID) > nameLength || len(s.Addresses) > addressesLimit {
		return errors.New("the UID or the list of addresses is too long")
	}
	return nil
}

type command string

const (
	confine command = "confine" // Apply the pod's rules and reply when they are in force.
	release command = "release" // Forget the sandbox.
	status  command = "status"  // Reply.
)

type request struct {
	Command command `json:"command"`
	Sandbox Sandbox `json:"sandbox,omitzero"`
}

// reply is either done or has an error.
type reply struct {
	Done  bool   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}
