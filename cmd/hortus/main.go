// Command hortus holds every part of Hortus as a subcommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"hortus.dev/hortus/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second Ctrl-C ends the process at once.
	err := cli.NewCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	var code cli.ExitCode
	if errors.As(err, &code) {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "hortus:", text)
		}
		os.Exit(code.Code())
	}
	fmt.Fprintln(os.Stderr, "hortus:", err)
	os.Exit(1)
}
