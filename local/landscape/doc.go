// Package landscape brings up a whole Hortus on one machine, and takes it down again without a trace.
//
// The parts, from the ground up: containerd and the local cloud as supervised processes of the host; two instances of
// the cloud, each a single-node Kubernetes cluster; the garden in the first of them, installed by the charts that
// production uses; a gardenlet in each, which registers its cluster as a seed. Every step of Up is idempotent, so that
// a second run repairs what is broken and changes nothing else.
package landscape

const (
	// The public network of the local cloud. 198.18.0.0/15 is set aside for tests inside one site (RFC 2544), so
	// that it overlaps neither home nor company networks.
	publicNetwork = "198.18.0.0/16"
	publicAddress = "198.18.0.1"
	publicBridge  = "hortus-public"
)
