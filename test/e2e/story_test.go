//go:build landscape

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Stories are tests of their own that share a landscape: each can be run alone by name, and makes and deletes its Shoots
// itself. The first one brings the landscape up unless there is one; TestMain takes down what was brought up.

// keepLandscape leaves the landscape of the stories there, to run the next one sooner.
const keepLandscape = "HORTUS_KEEP_LANDSCAPE"

var stories struct {
	sync.Once
	started bool
}

// story says that a test needs a landscape.
func story(t *testing.T) {
	t.Helper()
	stories.Do(func() {
		if _, err := os.Stat(filepath.Join(stateDir, "landscape")); err == nil {
			if out, err := run(t, filepath.Join(repository, ".build", "hortus"), "status"); err == nil {
				return
			} else {
				t.Logf("landscape status: %v\n%s", err, out)
			}
		}
		stories.started = true
		hortus(t, "up")
	})
	t.Cleanup(func() { rightsAreObserved(t) })
}

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" {
		code = reportRights()
	}
	if stories.started && os.Getenv(keepLandscape) == "" {
		command := exec.Command(filepath.Join(repository, ".build", "hortus"), "down")
		if out, err := command.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "hortus down: %v\n%s", err, out)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// newShoot makes a Shoot of an example under another name on the first seed, and waits until it is there. It is deleted at the end of
// the story.
func newShoot(t *testing.T, file, name string) {
	t.Helper()
	applyShootOn(t, file, name, "local-1")
	awaitSucceeded(t, name)
}

// patchShoot changes a Shoot with a JSON merge patch and waits until the change is rolled out.
func patchShoot(t *testing.T, name, patch string) {
	t.Helper()
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p", patch)
	awaitSucceeded(t, name)
}
