package timeslice

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestShort: threads, including later ones, and child processes have the short slice, if the kernel supports slices.
func TestShort(t *testing.T) {
	if err := Short(); err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	ids := []string{strconv.Itoa(child.Process.Pid)}
	for _, thread := range threads {
		ids = append(ids, thread.Name())
	}
	for _, text := range ids {
		id, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		attributes, err := unix.SchedGetAttr(id, 0)
		if errors.Is(err, unix.ESRCH) { // It has ended meanwhile.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if attributes.Policy == unix.SCHED_IDLE {
			// Tasks with the idle policy, with which tests may run, have no slices.
			continue
		}
		if got := time.Duration(attributes.Runtime); got != short && hasSlices(t) {
			t.Errorf("task %d has a slice of %s, want %s", id, got, short)
		}
	}
}

// hasSlices reports whether the kernel is at least 6.12.
func hasSlices(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(unix.ByteSliceToString(name.Release[:]), ".")
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return major > 6 || major == 6 && minor >= 12
}
