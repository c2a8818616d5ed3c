package scheduler

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// schedule runs the command.
func schedule(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	command, out := NewScheduleCommand(), &bytes.Buffer{}
	command.SetIn(strings.NewReader(stdin))
	command.SetOut(out)
	command.SetErr(&bytes.Buffer{})
	command.SetArgs(args)
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func TestScheduleCommand(t *testing.T) {
	for name, args := range map[string][]string{
		"same-region.txt":   {"-f", "testdata/fleet"},
		"same-region.jsonl": {"-f", "testdata/fleet", "-o", "json"},
		"distance.txt":      {"-f", "testdata/fleet", "--strategy", "MinimalDistance"},
		"distance.jsonl":    {"-f", "testdata/fleet", "--strategy", "MinimalDistance", "-o", "json"},
		"one-of-another.txt": {
			"-f", "testdata/fleet", "--scheduler-name", "own", "-n", "garden-dev", "of-another-scheduler", "running",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := schedule(t, "", args...)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "schedule", name)
			if *update {
				if err := errorsOf(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("output mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestScheduleReadsStandardInput(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{"garden.yaml", "shoots.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", "fleet", name))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n" + string(data))
	}
	want, err := schedule(t, "", "-f", "testdata/fleet", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := schedule(t, all.String(), "-f", "testdata/fleet/seeds.json,-", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("standard input and a folder are read differently (-folder +stdin):\n%s", diff)
	}
}

func TestScheduleOutputHasAllFields(t *testing.T) {
	out, err := schedule(t, "", "-f", "testdata/fleet", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var result map[string]any
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, key := range []string{"namespace", "name", "seed", "error"} {
			if _, ok := result[key].(string); !ok {
				t.Errorf("%s is no text in %s", key, line)
			}
		}
		for _, key := range []string{"tiedSeeds", "verdicts"} {
			if _, ok := result[key].([]any); !ok {
				t.Errorf("%s is no list in %s", key, line)
			}
		}
	}
}

func TestLaterManifestCounts(t *testing.T) {
	shoot := `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"test","namespace":"garden-dev"},` +
		`"spec":{"region":"asia","cloudProfile":{"name":"local"},"provider":{"type":"local"}}}`
	out, err := schedule(t, shoot, "-f", "testdata/fleet", "-f", "-", "test")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(out, "chosen") != 1 || !strings.Contains(out, "asia    chosen") {
		t.Errorf("the Shoot in asia is expected once, on seed asia:\n%s", out)
	}
}

func TestScheduleRefuses(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown strategy":   {"-f", "testdata/fleet", "--strategy", "Nearest"},
		"an unknown output":     {"-f", "testdata/fleet", "-o", "xml"},
		"a file that is absent": {"-f", "testdata/absent.yaml"},
		"what is no manifest":   {"-f", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := schedule(t, "kind: [", args...); err == nil {
				t.Errorf("no error, but output %q", out)
			}
		})
	}
}
