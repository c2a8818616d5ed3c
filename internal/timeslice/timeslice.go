// Package timeslice requests short time slices from the kernel.
//
// When a task with a shorter time slice than the running one wakes up, Linux runs it first, as long as it has not used
// more than its share of the processor. This suits processes that do little work for each of many requests, such as
// proxies: on a node with busy control planes such a process otherwise waits for the end of a whole slice, about 3 ms,
// at each step of a request. Its share does not change.
package timeslice

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// short is the shortest time slice that the kernel accepts.
const short = 100 * time.Microsecond

// Short gives all threads of the process short time slices, and with them those that start later and child processes.
// Kernels before 6.12 accept it without effect.
func Short() error {
	done := map[string]bool{}
	for before := -1; before < len(done); {
		// Repeat until no new thread has appeared: a thread without a short slice may have started it.
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, thread := range threads {
			if done[thread.Name()] {
				continue
			}
			if err := shorten(thread.Name()); err != nil {
				return fmt.Errorf("set the time slice of thread %s: %w", thread.Name(), err)
			}
			done[thread.Name()] = true
		}
	}
	return nil
}

func shorten(thread string) error {
	id, err := strconv.Atoi(thread)
	if err != nil {
		return err
	}
	attributes, err := unix.SchedGetAttr(id, 0)
	if err == nil {
		attributes.Runtime = uint64(short)
		err = unix.SchedSetAttr(id, attributes, 0)
	}
	if errors.Is(err, unix.ESRCH) { // It has ended meanwhile.
		return nil
	}
	return err
}
