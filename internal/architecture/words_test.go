package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// phrases that need a second reading, in lower case, and what the field says instead.
var phrases = []struct{ phrase, instead string }{
	{"led by server name", "routed by SNI"},
	{"leads the host name", "routes the host names"},
	{"who is in the way", "still in use by"},
	{"more shoots are in the way", "still in use by"},
	{"nor any other", "none are supported"},
	{"nor for any other", "none are supported"},
	{"stopped to send", "stopped sending"},
	{"stopped to refer", "stopped referring"},
	{"in order and in moderation", "sorted, at most N"},
	{"gets at nothing", "exposes no other"},
	{"says nothing of", "does not mention"},
	{"how the landscape is", "landscape status"},
	{"how the landscape of", "landscape status"},
	{"after the end was asked for", "on shutdown"},
	{"to tell the instant", "to compute the exact time"},
	{"no extension is registered for", "no extension registered for X (available: Y)"},
	{"the parent does not offer", "not offered by the parent (available: X)"},
	{"the server tells", "reports"},
	{"is told with", "is reported with"},
	{"is told in", "is reported in"},
	{"who is told", "receivers"},
	{"tells a human", "human-readable description of"},
	{"how long connections may go on", "connection drain period on shutdown"},
	{"let go of", "released"},
	{"lets go", "releases"},
	{"been let go", "been released"},
	{"beside it", "alongside it"},
	{"which needs none", "is exempt"},
	{"needs none of its own", "is exempt"},
	{"if it needs none", "if it is exempt"},
	{"called off", "cancelled"},
	{"call off", "cancel"},
	{"call that off", "cancel"},
	{"made anew", "recreated"},
	{"being dropped", "being removed"},
	{"hands off", "must not act"},
	{"without being asked", "automatically"},
	{"been asked to", "was requested to"},
	{"kept it alive", "no keepalive since"},
	{"does not get any further", "is stuck"},
	{"which is not there", "not found"},
	{"is the wanted state", "is the desired state"},
}

// TestWordsNeedOneReading reads code and documents for phrases that the field has words for.
func TestWordsNeedOneReading(t *testing.T) {
	root := filepath.Join("..", "..")
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go", "*.md", "*.yaml", "*.golden", "*.tpl",
		"*NOTES.txt", "*testdata/*.txt", "Makefile").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if path == "internal/architecture/words_test.go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // Deleted, and not committed yet.
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lower := strings.ToLower(string(text))
		for _, p := range phrases {
			if at := strings.Index(lower, p.phrase); at >= 0 {
				t.Errorf("%s:%d: %q (write: %s)", path, 1+strings.Count(lower[:at], "\n"), p.phrase, p.instead)
			}
		}
	}
}
