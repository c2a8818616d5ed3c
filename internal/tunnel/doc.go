// Package tunnel lets the API server of a Shoot reach nodes, pods and services of the Shoot although no port of the
// Shoot is open to the outside.
//
// The client runs in the Shoot. It dials the seed's gateway, requests the server of its control plane with HTTP CONNECT
// and a destination header, authenticates with mutual TLS end to end, and keeps one multiplexed session open. The
// server runs alongside the API server. It accepts the clients' sessions on one port and, on another, the API server's
// egress selector requests (HTTP CONNECT over mutual TLS). Each request becomes a stream on one of the sessions; the
// client at its end dials the target and copies both ways.
//
//	API server --CONNECT target--> Server ==stream==> Client --TCP--> target
//	                                 ^                  |
//	                                 +--- gateway <-----+   (the client dials)
//
// The server also connects the API server to the outside, for addresses that its users choose: the package egress
// decides which are allowed. A Shoot without workers has only these connections.
//
// Several clients may be connected; requests are spread over them, and a dead one is noticed by keepalive. Nothing is
// stored: a restart of either side only costs the open connections.
package tunnel
