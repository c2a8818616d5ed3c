//go:build linux

package command_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hortus.dev/hortus/local/cloud"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/clouddaemon/command"
)

// run runs `hortus cloud` with the administrator's file of a test cloud.
func run(t *testing.T, c *cloudtest.Cloud, args ...string) (string, error) {
	t.Helper()
	root := command.NewCommand()
	root.SilenceUsage, root.SilenceErrors = true, true
	out := &bytes.Buffer{}
	root.SetOut(out)
	root.SetArgs(append(args, "--state-dir", filepath.Dir(filepath.Dir(c.AdminFile()))))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, c *cloudtest.Cloud, args ...string) string {
	t.Helper()
	out, err := run(t, c, args...)
	if err != nil {
		t.Fatalf("hortus cloud %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func TestEveryListCanBePrinted(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	network := c.Network(t, "n", "10.9.0.0/24")
	i, err := c.Client.CreateInstance(t.Context(), cloud.CreateInstance{
		Name: "m", MachineType: "small", Image: "hortus.dev/machine:1.0.0", NetworkID: network,
		Tags: map[string]string{"b": "2", "a": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"instances", "networks", "load-balancers", "dns", "volumes", "buckets", "quotas", "faults", "machine-types", "images",
		"credentials",
	} {
		for _, format := range []string{"table", "wide", "json", "yaml"} {
			if out := mustRun(t, c, kind, "list", "-o", format); out == "" {
				t.Errorf("%s list -o %s prints nothing", kind, format)
			}
		}
	}
	wide := mustRun(t, c, "instances", "list", "-o", "wide")
	for _, want := range []string{i.ID, "10.9.0.10", "a=1,b=2", "hortus.dev/machine:1.0.0"} {
		if !strings.Contains(wide, want) {
			t.Errorf("wide table has no %q:\n%s", want, wide)
		}
	}
	var one cloud.Instance
	if err := json.Unmarshal([]byte(mustRun(t, c, "instances", "get", "m", "-o", "json")), &one); err != nil {
		t.Fatal(err)
	}
	if one.ID != i.ID {
		t.Errorf("instance got by name is %s, want %s", one.ID, i.ID)
	}
	if _, err := run(t, c, "instances", "list", "-o", "xml"); err == nil {
		t.Error("an unknown format is accepted")
	}
	c.WriteConsole(t, i.ID, "booting\nready\n")
	if out := mustRun(t, c, "instances", "console", "m"); out != "booting\nready\n" {
		t.Errorf("console shows %q", out)
	}
	if out := mustRun(t, c, "instances", "console", "m", "--tail-bytes", "6"); out != "ready\n" {
		t.Errorf("the last 6 bytes of the console are %q", out)
	}
	mustRun(t, c, "instances", "delete", "m")
	if _, err := run(t, c, "instances", "get", "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("get of a missing object: %v", err)
	}
}

func TestFaultsAndQuotasAreSet(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	mustRun(t, c, "faults", "set", "rate-limit", "CreateNetwork", "--count", "2", "--duration", "1m")
	faults, err := c.Client.ListFaults(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) != 1 || faults[0].Count != 2 || faults[0].DurationSeconds != 60 {
		t.Errorf("faults = %+v, want one for two calls or a minute", faults)
	}
	mustRun(t, c, "faults", "delete", "rate-limit-CreateNetwork")
	mustRun(t, c, "quotas", "set", "alice", "--instances", "3", "--memory-gib", "8")
	quotas, err := c.Client.ListQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.Quota{{Account: "admin"}, {Account: "alice", Limits: cloud.Limits{Instances: 3, MemoryBytes: 8 << 30}}}
	if diff := cmp.Diff(want, quotas); diff != "" {
		t.Errorf("quotas mismatch (-want +got):\n%s", diff)
	}
}

func TestObjectsGoInAndOut(t *testing.T) {
	c := cloudtest.Start(t, cloudtest.Options{})
	mustRun(t, c, "buckets", "create", "backups")
	mustRun(t, c, "buckets", "put", "backups", "a/admin.json", c.AdminFile())
	if out := mustRun(t, c, "buckets", "get", "backups", "a/admin.json"); !strings.Contains(out, c.Config.AccessKey) {
		t.Errorf("object = %q, want the file's content", out)
	}
	if out := mustRun(t, c, "buckets", "list", "backups", "--prefix", "a/"); !strings.Contains(out, "a/admin.json") {
		t.Errorf("list = %q, want the object", out)
	}
	if _, err := run(t, c, "buckets", "delete", "backups"); cloud.CodeOf(err) != cloud.CodeDependency {
		t.Errorf("delete of a full bucket: %v, want it rejected", err)
	}
	mustRun(t, c, "buckets", "delete", "backups", "--force")
}

func TestWithoutACloudTheMessageSaysWhatToGive(t *testing.T) {
	root := command.NewCommand()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs([]string{"instances", "list", "--state-dir", t.TempDir()})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("error = %v, want it to name the flags", err)
	}
}
