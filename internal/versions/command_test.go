package versions

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestCommand(t *testing.T) {
	for name, args := range map[string][]string{
		"catalogue.txt":  nil,
		"catalogue.json": {"--cloudprofile", "local", "-o", "json"},
		"rolling.txt":    {"-n", "garden-dev", "rolling", "--until", "2y"},
		"rolling.yaml":   {"garden-dev/rolling", "--until", "2y", "-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand(clocktesting.NewFakePassiveClock(time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)))
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"-f", "../plan/testdata/fleet.yaml"}, args...))
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("output mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown Shoot":   {[]string{"nobody"}, `Shoot "nobody" not found`},
		"an unknown profile": {[]string{"--cloudprofile", "nobody"}, "nobody"},
		"an unknown output":  {[]string{"-o", "xml"}, `invalid argument "xml" for "-o, --output" flag`},
		"no span":            {[]string{"rolling", "--until", "soon"}, "--until"},
		"too many Shoots":    {[]string{"a", "b"}, "at most 1"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand(clocktesting.NewFakePassiveClock(time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)))
			cmd.SetOut(new(bytes.Buffer))
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(append([]string{"-f", "../plan/testdata/fleet.yaml"}, tc.args...))
			if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}
