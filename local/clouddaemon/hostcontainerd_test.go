package clouddaemon

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestHostContainerdIsRendered(t *testing.T) {
	const golden = "testdata/containerd.toml"
	got := DefaultHostContainerd("/var/lib/hortus", "/run/hortus").Render()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("Render() mismatch (-want +got):\n%s", diff)
	}
}
