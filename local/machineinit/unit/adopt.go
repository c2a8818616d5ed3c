package unit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A recorded process is "<pid> <start time>"; the start time distinguishes it from a later process with the same
// number.

func (s *service) recordPath() string {
	return filepath.Join(s.options.RunDir, strings.TrimSuffix(s.name, ".service")+".pid")
}

func (s *service) remember(pid int) {
	if s.options.RunDir == "" {
		return
	}
	started, err := startTime(pid)
	if err != nil {
		return // Gone already.
	}
	err = os.MkdirAll(s.options.RunDir, 0o755)
	if err == nil {
		err = os.WriteFile(s.recordPath(), fmt.Appendf(nil, "%d %s\n", pid, started), 0o644)
	}
	if err != nil {
		s.options.Log.Error("Process cannot be recorded", "unit", s.name, "error", err)
	}
}

func (s *service) forget() {
	if s.options.RunDir != "" {
		_ = os.Remove(s.recordPath())
	}
}

// recorded returns the number of the main process that an earlier supervisor has left running, or 0.
func (s *service) recorded() int {
	if s.options.RunDir == "" {
		return 0
	}
	record, err := os.ReadFile(s.recordPath())
	if err != nil {
		return 0
	}
	var pid int
	var recorded string
	if _, err := fmt.Sscan(string(record), &pid, &recorded); err != nil {
		return 0
	}
	if started, err := startTime(pid); err != nil || started != recorded {
		return 0
	}
	return pid
}

// adopt returns the main process that an earlier supervisor has left running, or nil.
func (s *service) adopt() Process {
	pid := s.recorded()
	if pid == 0 {
		return nil
	}
	// While the descriptor is open, the PID cannot be reused unnoticed, so the record is compared again.
	descriptor, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	if s.recorded() != pid {
		_ = unix.Close(descriptor)
		return nil
	}
	p := newProcess(pid)
	go func() {
		defer unix.Close(descriptor)
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		s.forget()
		p.finish(Exit{Err: errors.New("a process of an earlier supervisor ended")})
	}()
	s.options.Log.Info("Unit runs already", "unit", s.name, "pid", pid)
	return p
}

// startTime returns field 22 of /proc/<pid>/stat, in clock ticks since boot. The command name in field 2 may contain
// anything, so fields are counted from the last parenthesis.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("unexpected format of /proc/%d/stat", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
