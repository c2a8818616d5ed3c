// Package gateway renders the seed's gateway, through which everything outside reaches the control planes in it.
package gateway
