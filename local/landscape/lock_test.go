package landscape

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"hortus.dev/hortus/test/leaks"
)

// lockedFolder makes the test program act as another 'hortus up': it locks the folder, reports that, and holds the lock
// until it is killed or its input ends.
const lockedFolder = "HORTUS_TEST_LOCKED_FOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockedFolder); dir != "" {
		unlock, err := lockState(dir)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer unlock()
		fmt.Println("locked")
		_, _ = io.Copy(io.Discard, os.Stdin) // Ends with the test.
		return
	}
	leaks.Main(m)
}

// holdElsewhere locks a folder in another process until that is killed.
func holdElsewhere(t *testing.T, dir string) *os.Process {
	t.Helper()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), lockedFolder+"="+dir)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process prints %q, %v", line, err)
	}
	return holder.Process
}

func TestOneProcessWorksOnAStateFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	holder := holdElsewhere(t, dir)
	_, err := lockState(dir)
	want := fmt.Sprintf("another 'hortus up' or 'hortus down' works on %s (process %d): wait for it or end it", dir,
		holder.Pid)
	if err == nil || err.Error() != want {
		t.Errorf("lockState() of a locked folder = %v, want %q", err, want)
	}
	if unlock, err := lockState(dir + "-other"); err != nil {
		t.Errorf("another folder is locked too: %v", err)
	} else {
		unlock()
	}

	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockState(dir)
	if err != nil {
		t.Fatalf("a killed process still holds the lock: %v", err)
	}
	unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unlock leaves the empty folder: %v", err)
	}
}

func TestUpRefusesALockedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	holder := holdElsewhere(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // The test never brings up a landscape.
	err := Up(ctx, Options{StateDir: dir, RunDir: t.TempDir(), Artifacts: t.TempDir(), Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d): wait for it", holder.Pid)) {
		t.Errorf("Up() in a locked folder = %v", err)
	}
}

func TestRemovalSparesTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	unlock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeSecret(filepath.Join(dir, "host", "units", "a"), nil); err != nil {
		t.Fatal(err)
	}
	if err := removeState(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("after the removal the lock is free: %v", err)
	}
	unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// TestRemovedLocksExcludeToo has many goroutines compete for a lock whose file and folder are removed with every
// release.
func TestRemovedLocksExcludeToo(t *testing.T) {
	const competitors, rounds = 8, 200
	dir := filepath.Join(t.TempDir(), "state")
	var inside, entered atomic.Int32
	var all sync.WaitGroup
	for range competitors {
		all.Go(func() {
			for range rounds {
				unlock, err := lockState(dir)
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two goroutines hold the lock at the same time")
				}
				entered.Add(1)
				runtime.Gosched() // Gives the others a chance.
				inside.Add(-1)
				unlock()
			}
		})
	}
	all.Wait()
	if entered.Load() == 0 {
		t.Error("no goroutine got the lock")
	}
}
