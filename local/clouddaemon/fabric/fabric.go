// Package fabric defines the interface through which the cloud makes its networks.
package fabric

import (
	"context"
	"net"
	"net/netip"
	"strconv"
)

// Network is an isolated network.
type Network struct {
	ID string
	// Gateway is the gateway's address with the length of the network's prefix.
	Gateway netip.Prefix
	// Uplink is the network's address on the public network.
	Uplink netip.Addr
}

// Port is an instance's connection to a network.
type Port struct {
	InstanceID string
	NetworkID  string
	// Address is the instance's address with the length of the network's prefix.
	Address netip.Prefix
	Gateway netip.Addr
}

// Fabric makes networks. All methods may be called again at any time and then repair what is missing.
type Fabric interface {
	// Start prepares the host: public network, kernel settings.
	Start(ctx context.Context) error
	EnsureNetwork(ctx context.Context, n Network) error
	// RemoveNetwork removes a network; a missing one is fine.
	RemoveNetwork(ctx context.Context, id string) error
	// Attach makes a fresh network namespace for an instance and returns its path; an earlier one is removed.
	Attach(ctx context.Context, p Port) (netns string, err error)
	// Detach removes the namespace of an instance; a missing one is fine.
	Detach(ctx context.Context, instanceID string) error
	// EnsureAddress makes the host answer to a public address.
	EnsureAddress(ctx context.Context, a netip.Addr) error
	RemoveAddress(ctx context.Context, a netip.Addr) error
	// Dial connects to an address inside a network.
	Dial(ctx context.Context, networkID string, target netip.AddrPort) (net.Conn, error)
	// Leftovers lists what exists, for comparison with the records.
	Leftovers(ctx context.Context) (Inventory, error)
}

// Inventory lists the networks, instances and addresses of a fabric on the host.
type Inventory struct {
	// Networks and Instances are IDs.
	Networks, Instances []string
	// Addresses are the public addresses besides the host's own.
	Addresses []netip.Addr
}

// Plain is the fabric of clouds without real networks: networks are records only, addresses are dialled from the host.
type Plain struct{}

var _ Fabric = Plain{}

func (Plain) Start(context.Context) error                     { return nil }
func (Plain) EnsureNetwork(context.Context, Network) error    { return nil }
func (Plain) RemoveNetwork(context.Context, string) error     { return nil }
func (Plain) Attach(context.Context, Port) (string, error)    { return "", nil }
func (Plain) Detach(context.Context, string) error            { return nil }
func (Plain) EnsureAddress(context.Context, netip.Addr) error { return nil }
func (Plain) RemoveAddress(context.Context, netip.Addr) error { return nil }
func (Plain) Leftovers(context.Context) (Inventory, error)    { return Inventory{}, nil }

// Dial connects from the host.
func (Plain) Dial(ctx context.Context, _ string, target netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(target.Addr().String(), strconv.Itoa(int(target.Port()))))
}
