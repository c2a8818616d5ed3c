//go:build linux

package container

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountPoints(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /var/lib/hortus/a\040b rw - tmpfs tmpfs rw
31 22 0:41 / /var/lib/hortus-other rw - tmpfs tmpfs rw
32 30 0:42 / /var/lib/hortus/a\040b/c rw - tmpfs tmpfs rw
33 22 0:43 / /var/lib/hortus rw - tmpfs tmpfs rw
`
	want := []string{"/var/lib/hortus/a b", "/var/lib/hortus/a b/c", "/var/lib/hortus"}
	if diff := cmp.Diff(want, MountPoints(mountinfo, "/var/lib/hortus")); diff != "" {
		t.Errorf("MountPoints() mismatch (-want +got):\n%s", diff)
	}
}
