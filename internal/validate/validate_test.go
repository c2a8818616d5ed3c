package validate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"hortus.dev/hortus/internal/golden"
	"hortus.dev/hortus/internal/manifest"
)

// now lies after the expiration date and the creation of the objects in testdata.
var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// run runs the command and returns its output and exit code.
func run(t *testing.T, in string, args ...string) (string, int) {
	t.Helper()
	cmd := newCommand(clocktesting.NewFakePassiveClock(now))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	var code interface{ Code() int }
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &code):
		return out.String() + "# " + err.Error() + "\n", code.Code()
	}
	t.Fatalf("run %v: %v", args, err)
	return "", 0
}

func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		golden string
		args   []string
		want   int
	}{
		"all errors are reported at once": {"wrong/table.golden", []string{
			"-f", "testdata/wrong/input.yaml",
		}, 1},
		"the same in JSON": {
			"wrong/json.golden", []string{"-f", "testdata/wrong/input.yaml", "-o", "json"}, 1,
		},
		"the same in YAML": {
			"wrong/yaml.golden", []string{"-f", "testdata/wrong/input.yaml", "-o", "yaml"}, 1,
		},
		"a CloudProfile among the manifests is used": {"profile/table.golden", []string{"-f", "testdata/profile"}, 1},
		"without a CloudProfile versions are not checked": {
			"profile/without.golden", []string{"-f", "testdata/profile/shoots.yaml"}, 0,
		},
		"changes are checked as kubectl apply makes them": {
			"change/table.golden", []string{"-f", "testdata/change/new.yaml", "--old", "testdata/change/old.yaml"}, 1,
		},
		"files of API servers are checked in ConfigMaps": {"files/table.golden", []string{
			"-f", "testdata/files/input.yaml",
		}, 1},
		"the items of a list are checked": {"list/table.golden", []string{
			"-f", "testdata/list/list.json",
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, code := run(t, "", tc.args...)
			if code != tc.want {
				t.Errorf("exit code = %d, want %d", code, tc.want)
			}
			golden.Bytes(t, tc.golden, []byte(got))
		})
	}
}

func TestStandardInput(t *testing.T) {
	got, code := run(t, "apiVersion: core.gardener.cloud/v1beta1\nkind: Project\nmetadata: {name: dev}\n", "-f", "-")
	if want := "valid   Project dev (stdin:1)\n"; got != want || code != 0 {
		t.Errorf("output = %q, exit code %d, want %q, 0", got, code, want)
	}
}

func TestFeatureGates(t *testing.T) {
	const manifest = `{apiVersion: core.gardener.cloud/v1beta1, kind: Shoot, metadata: {name: a, annotations: {migration.gardener.cloud/live-migrate: "true"}},
spec: {cloudProfile: {name: local}, region: home, provider: {type: local}}}`
	if _, code := run(t, manifest, "-f", "-"); code != 1 {
		t.Errorf("exit code with default gates = %d, want 1", code)
	}
	if out, code := run(t, manifest, "-f", "-", "--feature-gates", "LiveControlPlaneMigration=true"); code != 0 {
		t.Errorf("exit code with the gate = %d, want 0: %s", code, out)
	}
}

func TestBadCalls(t *testing.T) {
	for name, args := range map[string][]string{
		"no file":              {},
		"a file that is not":   {"-f", "testdata/nothing.yaml"},
		"an unknown output":    {"-f", "testdata/list", "-o", "xml"},
		"an unknown gate":      {"-f", "testdata/list", "--feature-gates", "Teleport=true"},
		"a gate without value": {"-f", "testdata/list", "--feature-gates", "InPlaceNodeUpdates"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := NewCommand()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetOut(&bytes.Buffer{})
			cmd.SetArgs(args)
			if err := cmd.Execute(); err == nil {
				t.Error("no error")
			}
		})
	}
}

// FuzzCheck checks that no input stops the command.
func FuzzCheck(f *testing.F) {
	for _, path := range []string{"wrong/input.yaml", "profile/shoots.yaml", "list/list.json"} {
		raw, err := os.ReadFile(filepath.Join("testdata", path))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nspec: {provider: {workers: {a: [b]}}}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		documents, err := manifest.Read([]string{"-"}, bytes.NewReader(raw), newDocument)
		if err != nil {
			return
		}
		check(documents, nil, Options{Now: now, Namespace: "default"})
		check(documents, documents, Options{Now: now, Namespace: "default", Update: true})
	})
}
