package tunnel

import "fmt"

// Names of the parts of the wire contract between client, gateway and server.
const (
	// DestinationHeader carries the wanted upstream in a CONNECT request to the gateway.
	DestinationHeader = "Reversed-VPN"
	// NewDestinationHeader is the newer name of the same header.
	NewDestinationHeader = "X-Gardener-Destination"
	// ServiceName is the name of the server's Service in a control plane namespace.
	ServiceName = "vpn-seed-server"
	// ClientPort is the server's port for its clients.
	ClientPort = 1194
	// ProxyPort is the server's port for requests of the API server.
	ProxyPort = 9443
	// EgressPort is the server's port for requests of the API server for connections to the outside.
	EgressPort = 9444
	// GatewayPort is the gateway's port for CONNECT requests.
	GatewayPort = 8132
)

// Destination returns the header value that leads to the server in a control plane namespace.
func Destination(namespace string) string {
	return fmt.Sprintf("outbound|%d||%s.%s.svc.cluster.local", ClientPort, ServiceName, namespace)
}
