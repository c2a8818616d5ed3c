package component

import "testing"

func TestMemoryLimits(t *testing.T) {
	for nodes, want := range map[int32]string{0: "8Gi", 30: "8Gi", 31: "32Gi", 300: "32Gi", 301: "128Gi", 5000: "128Gi"} {
		if got := SizeFor(nodes).MemoryLimit("8Gi"); got != want {
			t.Errorf("%d nodes: %s, want %s", nodes, got, want)
		}
	}
	if got := Size("").MemoryLimit("8Gi"); got != "" {
		t.Errorf("without a size: %s", got)
	}
	for limit, want := range map[string]string{"8Gi": "7GiB", "1Gi": "896MiB", "256Mi": "224MiB", "100Mi": "87MiB"} {
		if got := softMemoryLimit(limit).Value; got != want {
			t.Errorf("soft limit of %s: %s, want %s", limit, got, want)
		}
	}
}
