package etcdmember

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestLackOfSpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data") // Not there yet: its disk is that of the folder above.
	if got := lackOfSpace(dir, 0); got != "" {
		t.Errorf("a disk with room is reported: %s", got)
	}
	if got := lackOfSpace(dir, math.MaxUint64); !strings.Contains(got, "no space left") {
		t.Errorf("a full disk is not reported: %q", got)
	}
	if got := lackOfSpace(filepath.Join(dir, "missing", "data"), math.MaxUint64); got != "" {
		t.Errorf("a disk that is not known is reported: %s", got)
	}
}
