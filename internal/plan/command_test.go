package plan

import (
	"bytes"
	"errors"
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

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s mismatch (-want +got):\n%s", name, diff)
	}
}

func execute(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	cmd := newCommand(clocktesting.NewFakePassiveClock(time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)))
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.Bytes(), err
}

func TestCommandOutputs(t *testing.T) {
	fleet := []string{"-f", "testdata/fleet.yaml", "--until", "2y"}
	for name, args := range map[string][]string{
		"table.txt":           nil,
		"wide.txt":            {"-o", "wide"},
		"plan.json":           {"-o", "json"},
		"plan.yaml.txt":       {"-o", "yaml", "garden-dev/gap"},
		"plan.ics":            {"-o", "ics"},
		"summary.txt":         {"--summary"},
		"comparison.txt":      {"--with", "testdata/changed-profile.yaml"},
		"comparison-sums.txt": {"--with", "testdata/changed-profile.yaml", "--summary"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, append(append([]string{}, fleet...), args...)...)
			var code interface{ Code() int }
			if !errors.As(err, &code) || code.Code() != 3 {
				t.Errorf("error = %v, want exit code 3 for the dead ends", err)
			}
			golden(t, name, out)
		})
	}
}

func TestCommandWithoutDeadEnd(t *testing.T) {
	out, err := execute(t, "-f", "testdata/fleet.yaml", "-n", "garden-test", "fresh")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "fresh.txt", out)
}

func TestStep(t *testing.T) {
	out, err := execute(t, "-f", "testdata/fleet.yaml", "--step", "--at", "2026-03-02")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "step.jsonl", out)
}

func TestCommandErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown output":           {[]string{"-o", "xml"}, `invalid argument "xml" for "-o, --output" flag`},
		"an unknown Shoot":            {[]string{"-f", "testdata/fleet.yaml", "nobody"}, `Shoot "nobody" not found`},
		"an end before the beginning": {[]string{"--until", "2020-01-01"}, "is before the begin"},
		"an end that is not a time":   {[]string{"--until", "soon"}, "nor a span"},
		"a missing file":              {[]string{"-f", "testdata/none.yaml"}, "read manifests"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}
