//go:build linux

package cleanup

import (
	"testing"
)

func TestIsShim(t *testing.T) {
	const socket = "/run/hortus/containerd.sock"
	for name, tc := range map[string]struct {
		args []string
		want bool
	}{
		"a shim of the cloud": {
			args: []string{
				"/opt/bin/containerd-shim-runc-v2", "-namespace", "hortus", "-id", "i-1", "-address", socket,
			}, want: true,
		},
		"a shim inside an instance": {
			args: []string{
				"/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address",
				"/run/containerd/containerd.sock",
			},
		},
		"a shim of another containerd with a namespace of the same name": {
			args: []string{"containerd-shim-runc-v2", "-namespace", "hortus", "-id", "i-1", "-address", "/run/other.sock"},
		},
		"an editor with a file of that name": {args: []string{"vi", "containerd-shim-runc-v2", "-namespace", "hortus"}},
		"a kernel thread":                    {args: nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isShim(tc.args, socket); got != tc.want {
				t.Errorf("isShim(%q) = %v, want %v", tc.args, got, tc.want)
			}
		})
	}
}
