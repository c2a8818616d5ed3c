package components

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildOwn compiles a program of this project, such as ./local/cmd/echo of the module in the given folder, and returns
// its path. It can be called every time: the go command finds out within a second whether anything has changed.
func BuildOwn(ctx context.Context, module, pkg, artifacts string) (string, error) {
	name := filepath.Base(pkg)
	output, err := filepath.Abs(filepath.Join(artifacts, "bin", name, "dev", name))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", pkg, err)
	}
	args := append(append([]string{"build"}, Component{}.goArguments()...), "-o", output, pkg)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	if messages, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, tail(string(messages), errorLines))
	}
	return output, nil
}
