//go:build landscape

package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/hortus/local/components"
)

// TestBusyboxShell runs the shell of the image busybox with the programs of this machine.
func TestBusyboxShell(t *testing.T) {
	busybox, err := components.StaticBusybox()
	if err != nil {
		t.Fatal(err)
	}
	bash, err := components.LookProgram("bash")
	if err != nil {
		t.Fatal(err)
	}
	shell := filepath.Join(t.TempDir(), "sh")
	script := strings.NewReplacer("/bin/busybox", busybox, "/bin/bash", bash).Replace(busyboxShell)
	if err := os.WriteFile(shell, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"variables whose names have dashes are kept": {[]string{"-c", "env"}, "with-dash=kept\n"},
		"messages are those of busybox": {
			[]string{"-c", "echo > /dev/null/a"}, shell + ": can't create /dev/null/a: ",
		},
		"commands of the shell itself": {[]string{"-c", "pwd"}, "/\n"},
		"arguments":                    {[]string{"-c", "echo $0-$1", "a", "b"}, "a-b\n"},
		"scripts":                      {nil, "from stdin\n"},
	} {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), shell, tc.args...)
			command.Env = []string{"PATH=/usr/bin:/bin", "with-dash=kept"}
			command.Dir, command.Stdin = "/", strings.NewReader("echo from stdin")
			out, _ := command.CombinedOutput()
			if !strings.Contains(string(out), tc.want) {
				t.Errorf("%q writes %q, want %q", tc.args, out, tc.want)
			}
		})
	}
}
