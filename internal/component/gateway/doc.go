// Package gateway renders the seed's gateway, through which all clients outside of the seed reach the control planes in
// it.
package gateway
