package tunnel

import (
	"os"
	"slices"
	"strings"
)

// exemptions are targets in the seed that the API server may reach, as host:port.
type exemptions struct {
	fixed []string
	// file has more of them, one per line; "" or a missing file has none. It is a mounted ConfigMap that changes while
	// extensions are installed and updated.
	file string
}

// has reports whether a target is exempt. The file is read for each connection: it is small, and a connection costs a
// handshake anyway.
func (e *exemptions) has(target string) bool {
	if slices.Contains(e.fixed, target) {
		return true
	}
	if e.file == "" || target == "" {
		return false
	}
	content, err := os.ReadFile(e.file)
	if err != nil {
		return false // Nothing is exempt that cannot be read.
	}
	for line := range strings.Lines(string(content)) {
		if strings.TrimSuffix(line, "\n") == target {
			return true
		}
	}
	return false
}
