package release

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hortus.dev/hortus/internal/image"
)

// Program is one of the programs in the image.
type Program struct {
	// Name of the file.
	Name string
	// Module is the folder of the Go module, below the repository, and Package the package to build.
	Module, Package string
	// LDFlags are flags of the linker for the version that the program prints.
	LDFlags string
}

// Programs are all programs of the image, in the order of image.HortusLayers.
var Programs = []Program{
	{Name: "etcd", Module: "local/components/etcd", Package: "go.etcd.io/etcd/server/v3",
		LDFlags: "-X go.etcd.io/etcd/api/v3/version.GitSHA=v" + image.EtcdVersion},
	{Name: "tunnel", Module: ".", Package: "./cmd/tunnel"},
	{Name: "control-plane", Module: ".", Package: "./cmd/control-plane"},
	{Name: "hortus", Module: ".", Package: "./cmd/hortus"},
	{Name: "hortus-policy", Module: ".", Package: "./local/cmd/cni-policy"},
}

// Compiler builds programs with the go command.
type Compiler struct {
	Source  Source
	Version string
	// Folder is where the programs are put.
	Folder string
}

// Compile builds a program for a platform, without paths or times of the machine in it.
func (c Compiler) Compile(ctx context.Context, p Program, platform string) (string, error) {
	goos, arch, _ := strings.Cut(platform, "/")
	output, err := filepath.Abs(filepath.Join(c.Folder, goos+"-"+arch, p.Name))
	if err != nil {
		return "", err
	}
	flags := strings.TrimSpace("-s -w -buildid= -X hortus.dev/hortus/internal/version.Version=" + c.Version + " " + p.LDFlags)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", flags, "-o", output, p.Package)
	cmd.Dir = filepath.Join(c.Source.Folder, p.Module)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	if messages, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, messages)
	}
	return output, nil
}

// ReadSource reads the state of a work tree with git.
func ReadSource(ctx context.Context, folder string) (Source, error) {
	s := Source{Folder: folder}
	head, err := git(ctx, folder, "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(head), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, fmt.Errorf("read the time of commit %s: %w", commit, err)
	}
	s.Commit, s.Time = commit, time.Unix(unix, 0).UTC()
	status, err := git(ctx, folder, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(status) {
		s.Changed = append(s.Changed, strings.TrimSpace(line[2:]))
	}
	return s, nil
}

// Checkout writes the files of the commit to a folder and continues with that one, so that changes of the work tree
// during the build have no effect.
func (s Source) Checkout(ctx context.Context, folder string) (Source, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return s, err
	}
	root, err := git(ctx, s.Folder, "rev-parse", "--show-toplevel")
	if err != nil {
		return s, err
	}
	root = strings.TrimSpace(root)
	if _, err := git(ctx, s.Folder, "clone", "--quiet", "--shared", "--no-checkout", root, folder); err != nil {
		return s, err
	}
	if _, err := git(ctx, folder, "checkout", "--quiet", "--detach", s.Commit); err != nil {
		return s, err
	}
	s.Folder = folder
	return s, nil
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = folder
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(problems.String()))
	}
	return string(out), nil
}
