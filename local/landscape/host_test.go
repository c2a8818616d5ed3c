package landscape

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/local/machineinit/unit"
)

func TestServicesGetTheirEnvironmentAndArgumentsAsTheyAre(t *testing.T) {
	environment := map[string]string{
		"PATH": "/bin:/my programs", "HOME": "/root", "GOFLAGS": `-tags="a b" -x=$HOME%n`, "SECRET": "not handed on",
	}
	s := service{
		description: "a test", after: "other.service",
		environment: buildEnvironment(func(name string) (string, bool) {
			value, set := environment[name]
			return value, set
		}),
		command: []string{"/my programs/hortus", "cloud", "--state-dir", "/a b/100%/$HOME/${HOME}", ""},
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.service"), []byte(s.unitFile()), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := unit.Load("a.service", []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	// Specifiers with % are expanded when the unit starts, in arguments, too.
	want := []string{"PATH=/bin:/my programs", "HOME=/root", `GOFLAGS=-tags="a b" -x=$HOME%%n`}
	if diff := cmp.Diff(want, spec.Environment); diff != "" {
		t.Errorf("environment mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.command, spec.ExecStart[0].Args([]string{"HOME=/elsewhere"}, "a.service")); diff != "" {
		t.Errorf("arguments mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"other.service"}, spec.After); diff != "" {
		t.Errorf("units before it mismatch (-want +got):\n%s", diff)
	}
}
