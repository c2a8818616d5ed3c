// Package gateway forwards connections from outside a seed to the control planes in it, without decrypting them.
//
//	443   TLS, by the server name in the ClientHello, as routed by TLSRoutes (Gateway API, passthrough)
//	8132  HTTP CONNECT, by the destination header: tunnel servers and API servers of control planes
//	8443  PROXY protocol v2, by the destination address: the API server whose Service has that cluster IP
//
// The routing table is a pure function of the observed TLSRoutes and Services ([BuildTable]); a controller rebuilds it
// on every change and swaps it in ([Server.SetTable]). Nothing that a client sends ever becomes an address: it is only
// looked up in the table, so the gateway connects to nothing else.
package gateway
