package landscape

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// lockName is the file of the state folder that 'hortus up' and 'hortus down' lock.
	lockName = "lock"
	// lockTries bounds the attempts to lock a file that its holder removes in the meantime. A holder removes it once,
	// when it ends.
	lockTries = 100
)

// lockState keeps every other 'hortus up' and 'hortus down' away from a state folder until unlock is called or this
// process ends, however it ends. It makes the folder; unlock removes it if nothing is in it.
func lockState(stateDir string) (unlock func(), err error) {
	path := filepath.Join(stateDir, lockName)
	file, err := lockFile(path)
	if held := (*heldError)(nil); errors.As(err, &held) {
		return nil, fmt.Errorf("another 'hortus up' or 'hortus down' works on %s%s: wait for it or end it", stateDir,
			held.holder())
	}
	if err != nil {
		return nil, err
	}
	return func() {
		_ = os.Remove(path) // While it is locked: others that have opened it notice the removal, and begin anew.
		file.Close()
		_ = os.Remove(stateDir) // Fails on purpose if the folder has files, such as the lock of the next holder.
	}, nil
}

// removeState removes everything from a state folder except the lock, which the caller holds: without it another
// 'hortus up' could begin in the midst of the removal.
func removeState(stateDir string) error {
	entries, err := os.ReadDir(stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // It is already removed if the run folder contains it.
		return fmt.Errorf("list %s: %w", stateDir, err)
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(stateDir, entry.Name())); err != nil {
			return fmt.Errorf("remove %s: %w", stateDir, err)
		}
	}
	return nil
}

// heldError says that another process holds a lock.
type heldError struct {
	path string
	pid  int // 0 if the holder has not written it yet.
}

func (e *heldError) Error() string { return e.path + " is locked" + e.holder() }

func (e *heldError) holder() string {
	if e.pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", e.pid)
}

var errRemoved = errors.New("the lock file is repeatedly removed by others")

// lockFile locks the file at path, making it and its folder if needed, and writes the number of this process into it.
// The lock lasts until the file is closed or this process ends; programs that it starts do not inherit it. A holder may
// remove the file before it closes it. The error is a heldError if another process holds the lock.
func lockFile(path string) (*os.File, error) {
	for range lockTries {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("make folder of lock file: %w", err)
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue // The folder was removed in between.
		}
		if err != nil {
			return nil, fmt.Errorf("open lock file: %w", err)
		}
		if err = lock(file); err == nil {
			return file, nil
		}
		file.Close()
		if !errors.Is(err, errRemoved) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: %w", path, errRemoved)
}

// lock locks an open file, and then verifies that its name still refers to it: a lock on a file that was removed after
// it was opened would exclude nobody. If it was removed, the error is errRemoved.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &heldError{path: file.Name(), pid: readPID(file.Name())}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	locked, err := file.Stat()
	if err != nil {
		return fmt.Errorf("stat lock file: %w", err)
	}
	named, err := os.Stat(file.Name())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(locked, named) {
		return errRemoved
	}
	if err != nil {
		return fmt.Errorf("stat lock file: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if _, err := fmt.Fprintln(file, os.Getpid()); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// readPID returns the number in a lock file, 0 if there is none yet.
func readPID(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}
