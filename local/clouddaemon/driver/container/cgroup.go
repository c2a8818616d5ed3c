//go:build linux

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroupRoot is the mount point of the cgroup trees: one (version 2) or one for each controller (version 1).
const cgroupRoot = "/sys/fs/cgroup"

const (
	// killRounds bounds how often processes of a cgroup are killed: they may fork while they are listed.
	killRounds = 50
	killPause  = 20 * time.Millisecond
)

const (
	// sharesOfProcess and weightOfProcess are the CPU weight of one process of default priority relative to a cgroup,
	// in cgroup v1 and v2.
	sharesOfProcess = 1024
	weightOfProcess = 100
)

// weighCgroup gives a cgroup the CPU weight of a number of processes. Without that, all processes in the cgroup
// together get as much of busy CPUs as one process outside of it.
func weighCgroup(name string, processes int) error {
	var errs []error
	for _, dir := range cgroupDirs(name) {
		for file, each := range map[string]int{"cpu.shares": sharesOfProcess, "cpu.weight": weightOfProcess} {
			path := filepath.Join(dir, file)
			if _, err := os.Stat(path); err != nil {
				continue // It is of the other version, or of another controller.
			}
			errs = append(errs, os.WriteFile(path, []byte(strconv.Itoa(processes*each)), 0o644))
		}
	}
	return errors.Join(errs...)
}

// RemoveCgroup removes a cgroup and its descendants from every tree, and kills the processes that are left in them. A
// missing cgroup is no error.
func RemoveCgroup(name string) error {
	if filepath.Clean("/"+name) == "/" {
		return errors.New("cgroup: forbidden: the root cannot be removed")
	}
	dirs := cgroupDirs(name)
	for range killRounds {
		pids := map[int]bool{}
		for _, dir := range dirs {
			collectProcesses(dir, pids)
		}
		if len(pids) == 0 {
			break
		}
		for pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // It may be gone already.
		}
		time.Sleep(killPause)
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, removeTree(dir))
	}
	return errors.Join(errs...)
}

// RemoveEmptyCgroup removes a cgroup from every tree in which nothing is below it.
func RemoveEmptyCgroup(name string) {
	for _, dir := range cgroupDirs(name) {
		_ = syscall.Rmdir(dir) // The kernel refuses if anything is in it.
	}
}

// cgroupDirs returns the directories of a cgroup in all trees. Trees may share a mount by symbolic link.
func cgroupDirs(name string) []string {
	var dirs []string
	candidates, _ := filepath.Glob(filepath.Join(cgroupRoot, "*"))
	for _, tree := range append(candidates, cgroupRoot) {
		real, err := filepath.EvalSymlinks(tree)
		if err != nil {
			continue
		}
		if dir := filepath.Join(real, name); isDir(dir) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func collectProcesses(dir string, pids map[int]bool) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for _, line := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
				pids[pid] = true
			}
		}
		return nil
	})
}

// removeTree removes cgroup directories from the leaves up; the kernel removes the files in them.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, d := range dirs {
		if rmErr := syscall.Rmdir(d); rmErr != nil && !errors.Is(rmErr, syscall.ENOENT) {
			err = errors.Join(err, fmt.Errorf("remove cgroup %s: %w", d, rmErr))
		}
	}
	return err
}
