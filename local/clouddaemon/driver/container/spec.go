//go:build linux

package container

import (
	"context"
	"path"
	"runtime"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"hortus.dev/hortus/local/clouddaemon/driver"
)

const (
	initPath = "/sbin/init"
	// cpuPeriod is the usual period of the CPU limit, in microseconds.
	cpuPeriod = 100000
	// sharesPerCPU is the kernel's weight of one core.
	sharesPerCPU = 1024
)

// specOptions describe an instance as a container: privileged, for a kubelet inside needs all devices, /sys, /proc/sys
// and mounts; and with limits on everything in it, pods included, since their cgroups are below its own.
func specOptions(m driver.Machine, image containerd.Image) []oci.SpecOpts {
	return []oci.SpecOpts{
		oci.WithImageConfig(image),
		oci.WithProcessArgs(initPath),
		oci.WithHostname(m.Hostname),
		oci.WithPrivileged,
		oci.WithNewPrivileges,
		oci.WithHostDevices,
		oci.WithAllDevicesAllowed,
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: m.NetNS}),
		oci.WithCgroup(path.Join(CgroupParent, m.ID)),
		withMounts(m.Mounts),
		withLimits(m.CPU, m.MemoryBytes, runtime.NumCPU()),
		withOpenFiles,
	}
}

// withMounts replaces the small /run of ordinary containers and adds the cgroup tree and the mounts of the cloud.
func withMounts(mounts []driver.Mount) oci.SpecOpts {
	return func(ctx context.Context, client oci.Client, c *containers.Container, s *oci.Spec) error {
		if err := oci.WithoutRunMount(ctx, client, c, s); err != nil {
			return err
		}
		add := []specs.Mount{
			// /run holds the state of the containers inside. Its content is lost at a reboot, as it should be.
			{Destination: "/run", Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "strictatime", "mode=755", "size=1g"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
				Options: []string{"nosuid", "noexec", "nodev", "relatime", "rw"}},
		}
		for _, m := range mounts {
			access, propagation := "rw", "rprivate"
			if m.ReadOnly {
				access = "ro"
			}
			if m.Follows {
				propagation = "rslave"
			}
			add = append(add, specs.Mount{
				Destination: m.Target, Type: "bind", Source: m.Source, Options: []string{"rbind", propagation, access},
			})
		}
		return oci.WithMounts(add)(ctx, client, c, s)
	}
}

// withLimits bounds CPU and memory. A CPU limit that the host cannot reach is left out; it would only cost time.
func withLimits(cpu int, memoryBytes int64, hostCPU int) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		if s.Linux.Resources == nil {
			s.Linux.Resources = &specs.LinuxResources{}
		}
		shares := uint64(cpu * sharesPerCPU)
		s.Linux.Resources.CPU = &specs.LinuxCPU{Shares: &shares}
		if cpu < hostCPU {
			quota, period := int64(cpu*cpuPeriod), uint64(cpuPeriod)
			s.Linux.Resources.CPU.Quota, s.Linux.Resources.CPU.Period = &quota, &period
		}
		s.Linux.Resources.Memory = &specs.LinuxMemory{Limit: &memoryBytes}
		return nil
	}
}

// withOpenFiles allows as many open files as this host does; the default of 1024 is for single programs.
func withOpenFiles(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	s.Process.Rlimits = []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: limit.Max, Hard: limit.Max}}
	return nil
}
