package images

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Unpacked files take precedence, since they match each other; older servers are one program.
func TestSSHServerPrograms(t *testing.T) {
	for name, tc := range map[string]struct {
		root   string
		exists []string
		want   []string
	}{
		"installed": {
			exists: []string{"/usr/sbin/sshd", "/usr/bin/ssh-keygen"},
			want:   []string{"/usr/sbin/sshd", "/usr/bin/ssh-keygen"},
		},
		"unpacked in addition to the programs for users": {
			root: "/p", exists: []string{"/p/usr/sbin/sshd", "/usr/bin/ssh-keygen"},
			want: []string{"/p/usr/sbin/sshd", "/usr/bin/ssh-keygen"},
		},
		"unpacked with newer programs for users": {
			root: "/p",
			exists: []string{
				"/p/usr/sbin/sshd", "/p/usr/bin/ssh-keygen", "/usr/bin/ssh-keygen", "/p/usr/lib/openssh/sshd-session",
			},
			want: []string{"/p/usr/sbin/sshd", "/p/usr/bin/ssh-keygen", "/p/usr/lib/openssh/sshd-session"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := sshServerPrograms(tc.root, func(path string) bool { return slices.Contains(tc.exists, path) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sshServerPrograms() (-want +got):\n%s", diff)
			}
		})
	}
}

// Only machines have an SSH server.
func TestServerIsInMachinesOnly(t *testing.T) {
	from := sources{artifacts: "out", sshServer: []Entry{{Path: "usr/sbin/sshd", Source: "sshd"}}}
	for _, name := range Names() {
		r, err := recipeFor(name, from)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(slices.Concat(r.layers...), func(e Entry) bool { return e.Path == "usr/sbin/sshd" })
		if has != isMachine(name) {
			t.Errorf("whether %s has an SSH server is %t, want %t", name, has, isMachine(name))
		}
	}
}
