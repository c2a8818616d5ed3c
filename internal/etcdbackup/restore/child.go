package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// measureTimeout bounds the start of etcd for reading its log.
const measureTimeout = 2 * time.Minute

// GCPercent for the process while it restores trades time for memory: pages of the database file are garbage after each
// transaction.
const GCPercent = 50

// errNoChild is for environments in which a child process cannot be started.
var errNoChild = errors.New("cannot start a process for etcd")

// MeasureInChild runs the hidden command `etcd-backup measure` of this program in a process of its own: etcd ends the
// process when it finds its log damaged.
func MeasureInChild(ctx context.Context, o Options) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoChild, err)
	}
	child := exec.CommandContext(ctx, program, "etcd-backup", "measure", "--data-dir="+o.DataDir, "--name="+o.Name,
		"--initial-cluster="+o.InitialCluster, "--initial-cluster-token="+o.InitialClusterToken,
		"--initial-advertise-peer-urls="+strings.Join(o.InitialAdvertisePeerURLs, ","))
	var problems, out bytes.Buffer
	child.Stderr, child.Stdout, child.Env = &problems, &out, os.Environ()
	err = child.Run()
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("start etcd on the data directory: %w", ctx.Err())
	case child.ProcessState == nil || !child.ProcessState.Exited() && err != nil:
		return 0, fmt.Errorf("%w: %w", errNoChild, err) // Not started, or ended by a signal such as of a memory limit.
	case err != nil && out.Len() == 0 && !strings.Contains(problems.String(), ErrBroken.Error()) &&
		!strings.Contains(problems.String(), "panic"):
		// Etcd ends the process without a message if its data is damaged; other failures have one.
		if message := lastLine(problems.String()); message != "" {
			return 0, fmt.Errorf("%w: %s", errNoChild, message)
		}
		return 0, fmt.Errorf("%w: it has ended without a message", ErrBroken)
	case err != nil:
		return 0, fmt.Errorf("%w: %s", ErrBroken, lastLine(problems.String()))
	}
	revision, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: no revision in its output", errNoChild)
	}
	return revision, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
