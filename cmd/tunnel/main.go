// Command tunnel is both ends of the tunnel between an API server and its Shoot. It is a separate program because every
// Shoot has one at either end: an idle process takes 2 MiB of memory; as a part of the hortus binary it would take
// 15 MiB.
package main

import (
	"os"

	"hortus.dev/hortus/internal/tunnel"
)

func main() {
	if err := tunnel.NewCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
