// Command machine-init is process 1 of a machine of the local cloud, installed as /sbin/init. Called as "init ctl ...",
// it sends commands to the running process 1.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hortus.dev/hortus/local/machineinit"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "ctl" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return machineinit.Control(ctx, machineinit.ControlSocket, args[1:], os.Stdout)
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("this is process %d; only process 1 of a machine can boot it (see init ctl)", os.Getpid())
	}
	return machineinit.Boot(os.Stdout)
}
