package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// lockPeriod is the interval of attempts to take a lock that another process holds.
const lockPeriod = 100 * time.Millisecond

// lockDataDir makes sure that at most one etcd uses a data directory: the lock is held by this process and by every
// etcd that it has started, until the last of them has ended.
func lockDataDir(ctx context.Context, dataDir string, waiting func()) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dataDir), 0o700); err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	f, err := os.OpenFile(dataDir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-time.After(lockPeriod):
		}
	}
}

// process is a running etcd.
type process struct {
	command *exec.Cmd
	// ended is closed when the process has ended; err is its result.
	ended chan struct{}
	err   error
}

// startProcess starts etcd. Etcd ends with this process, even if this process is killed.
func startProcess(program string, args []string, lock *os.File) (*process, error) {
	p := &process{command: exec.Command(program, args...), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = os.Stdout, os.Stderr
	p.command.ExtraFiles = []*os.File{lock} // Etcd inherits the lock, so that it lasts as long as etcd runs.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // The kernel sends the signal when the thread that started the process ends.
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.err = p.command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return p, nil
}

// kill ends etcd at once. Acknowledged writes are in its log; an orderly end would wait for watches that never end.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}
