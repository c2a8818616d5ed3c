package etcdmember

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestLackOfSpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data") // The folder does not exist yet: its disk is that of the parent folder.
	if got := lackOfSpace(dir, 0); got != "" {
		t.Errorf("a disk with free space is reported: %s", got)
	}
	if got := lackOfSpace(dir, math.MaxUint64); !strings.Contains(got, "no space left") {
		t.Errorf("a full disk is not reported: %q", got)
	}
	if got := lackOfSpace(filepath.Join(dir, "missing", "data"), math.MaxUint64); got != "" {
		t.Errorf("an unknown disk is reported: %s", got)
	}
}
