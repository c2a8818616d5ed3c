// Command tunnel is both ends of the tunnel between an API server and its Shoot. It is a program of its own because one
// runs for every Shoot, and one in it: idle it takes 2 MiB, as a part of the large program 15 MiB.
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
