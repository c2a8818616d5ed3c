// Package coredns renders the DNS server of a Shoot.
package coredns
