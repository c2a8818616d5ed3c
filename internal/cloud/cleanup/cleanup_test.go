//go:build linux

package cleanup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsShim(t *testing.T) {
	const socket = "/run/hortus/containerd.sock"
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"a shim of the cloud": {
			args: []string{"/opt/bin/containerd-shim-runc-v2", "-namespace", "hortus", "-id", "i-1", "-address", socket}, want: true,
		},
		"a shim inside an instance": {
			args: []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", "/run/containerd/containerd.sock"},
		},
		"a shim of another containerd with a namespace of the same name": {
			args: []string{"containerd-shim-runc-v2", "-namespace", "hortus", "-id", "i-1", "-address", "/run/other.sock"},
		},
		"an editor on a file of that name": {args: []string{"vi", "containerd-shim-runc-v2", "-namespace", "hortus"}},
		"a kernel thread":                  {args: nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isShim(tc.args, socket); got != tc.want {
				t.Errorf("isShim(%q) = %v, want %v", tc.args, got, tc.want)
			}
		})
	}
}

func TestMountPoints(t *testing.T) {
	const mountinfo = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /var/lib/hortus/a\040b rw - tmpfs tmpfs rw
31 22 0:41 / /var/lib/hortus-other rw - tmpfs tmpfs rw
32 30 0:42 / /var/lib/hortus/a\040b/c rw - tmpfs tmpfs rw
33 22 0:43 / /var/lib/hortus rw - tmpfs tmpfs rw
`
	want := []string{"/var/lib/hortus/a b", "/var/lib/hortus/a b/c", "/var/lib/hortus"}
	if diff := cmp.Diff(want, mountPoints(mountinfo, "/var/lib/hortus")); diff != "" {
		t.Errorf("mountPoints() mismatch (-want +got):\n%s", diff)
	}
}
