//go:build linux

package container

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/term"
)

// Exec runs a command inside an instance with this process' input and output, and returns its exit code. With tty it
// gets a terminal of the current size.
func (d *Driver) Exec(ctx context.Context, id string, args []string, tty bool) (code uint32, err error) {
	container, task, err := d.load(ctx, id)
	if err != nil {
		return 0, err
	}
	if task == nil {
		return 0, fmt.Errorf("instance %q: not running", id)
	}
	ctx = d.context(ctx)
	spec, err := container.Spec(ctx)
	if err != nil {
		return 0, fmt.Errorf("read specification of container %q: %w", id, err)
	}
	process := *spec.Process
	process.Args, process.Terminal = args, tty
	creator := cio.NewCreator(cio.WithStdio)
	if tty {
		process.Env = append(process.Env, "TERM="+os.Getenv("TERM"))
		before, err := term.MakeRaw(int(os.Stdin.Fd()))
		if err != nil {
			return 0, fmt.Errorf("set terminal to raw mode: %w", err)
		}
		defer term.Restore(int(os.Stdin.Fd()), before)
		creator = cio.NewCreator(cio.WithStreams(os.Stdin, os.Stdout, nil), cio.WithTerminal)
	}
	p, err := task.Exec(ctx, "exec-"+strconv.FormatInt(time.Now().UnixNano(), 36), &process, creator)
	if err != nil {
		return 0, fmt.Errorf("make process in container %q: %w", id, err)
	}
	defer p.Delete(context.WithoutCancel(ctx), containerd.WithProcessKill)
	exit, err := p.Wait(ctx)
	if err != nil {
		return 0, fmt.Errorf("wait for process in container %q: %w", id, err)
	}
	if err := p.Start(ctx); err != nil {
		return 0, fmt.Errorf("start process in container %q: %w", id, err)
	}
	if tty {
		if width, height, err := term.GetSize(int(os.Stdin.Fd())); err == nil {
			_ = p.Resize(ctx, uint32(width), uint32(height)) // If it fails, only line breaks are wrong.
		}
	}
	status := <-exit
	p.IO().Wait() // Output may still be on its way.
	return status.ExitCode(), status.Error()
}
