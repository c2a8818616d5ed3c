package versions

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
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
