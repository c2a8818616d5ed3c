//go:build landscape

package node

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

// TestKernel publishes a volume in its own mount namespace. It needs root.
func TestKernel(t *testing.T) {
	runtime.LockOSThread() // Never unlocked: the thread ends with the test and its namespace with it.
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	volumes, source := filepath.Join(base, "volumes"), filepath.Join(base, "source")
	attached, target := filepath.Join(volumes, "vol-1"), filepath.Join(base, "a pod", "mount")
	for _, dir := range []string{attached, source} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{VolumesDir: volumes, Mounts: Kernel{}}
	if _, err := s.NodePublishVolume(t.Context(), publish("vol-1", target)); err == nil {
		t.Error("a directory that is not a mount is published")
	}
	if err := unix.Mount(source, attached, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	for readOnly, want := range map[bool]error{false: nil, true: unix.EROFS} {
		in := publish("vol-1", target)
		in.Readonly = readOnly
		for range 2 {
			if _, err := s.NodePublishVolume(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(target, "from"), []byte("a pod"), 0o600); !errors.Is(err, want) {
			t.Errorf("writing (read-only: %t) ends with %v, want %v", readOnly, err, want)
		}
		stats, err := s.NodeGetVolumeStats(t.Context(),
			&csispec.NodeGetVolumeStatsRequest{VolumeId: "vol-1", VolumePath: target})
		if err != nil || len(stats.Usage) != 2 || stats.Usage[0].Total <= 0 ||
			stats.Usage[0].Available > stats.Usage[0].Total {
			t.Errorf("NodeGetVolumeStats() = %v, %v", stats, err)
		}
		unpublish := &csispec.NodeUnpublishVolumeRequest{VolumeId: "vol-1", TargetPath: target}
		if _, err := s.NodeUnpublishVolume(t.Context(), unpublish); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the mount point is still there (%v)", err)
		}
	}
	// The namespace ends with the thread, so its mounts no longer hide the files that the clean-up removes.
	if err := unix.Unmount(attached, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(source, "from")); string(got) != "a pod" {
		t.Errorf("the volume has %q (%v)", got, err)
	}
}
