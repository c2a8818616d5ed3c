//go:build landscape

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Stories are tests of their own that share a landscape: each can be run alone by name, and makes and deletes its
// Shoots itself. One that finds no landscape, or one that an earlier story broke, brings up another; TestMain takes it
// down.

// keepLandscape leaves the landscape of the stories there, to run the next one sooner.
const keepLandscape = "HORTUS_KEEP_LANDSCAPE"

var stories struct {
	sync.Mutex
	started bool // The landscape is theirs.
	running int  // Those that use the landscape now.
}

// secondSeed is held by a story that uses the seed local-2. All others that run side by side use local-1.
var secondSeed sync.Mutex

func holdSecondSeed(t *testing.T) {
	t.Helper()
	secondSeed.Lock()
	t.Cleanup(secondSeed.Unlock)
}

// recovery is how long a landscape may take until the faults of the story before are overcome.
const recovery = 3 * time.Minute

// story says that a test needs a landscape. Tests that run side by side say so first.
func story(t *testing.T) {
	t.Helper()
	stories.Lock()
	defer stories.Unlock()
	if err := awaitLandscape(t); err != nil {
		if stories.running > 0 {
			t.Fatalf("the landscape does not work, and other stories use it: %v", err)
		}
		t.Logf("a new landscape, since: %v", err)
		stories.started = true
		hortus(t, "down")
		hortus(t, "up")
	}
	stories.running++
	t.Cleanup(func() {
		if t.Failed() {
			keepState(t)
		}
		rightsAreObserved(t)
		stories.Lock()
		defer stories.Unlock()
		stories.running--
	})
}

// awaitLandscape until it works. One that is not there is not waited for.
func awaitLandscape(t *testing.T) error {
	t.Helper()
	if _, err := os.Stat(filepath.Join(stateDir, "landscape")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	for {
		out, err := run(t, filepath.Join(repository, ".build", "hortus"), "status")
		if err == nil {
			out, err = kubectlE(t, kubeconfigOf("garden"), "get", "shoots", "--all-namespaces")
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		t.Logf("%v: %s", err, out)
		pause(ctx)
	}
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

// newShoot makes a Shoot of an example under another name on the first seed, and waits until it is there. It is deleted
// at the end of the story.
func newShoot(t *testing.T, file, name string) {
	t.Helper()
	applyShootOn(t, file, name, "local-1")
	awaitSucceeded(t, name)
}

// applyShoot makes a Shoot of testdata. Its window for maintenance is far ahead, so that its versions stay while the
// story lasts.
func applyShoot(t *testing.T, file string) {
	t.Helper()
	const form = "150405-0700"
	begin := time.Now().UTC().Add(6 * time.Hour)
	window := fmt.Sprintf("maintenance: {timeWindow: {begin: %q, end: %q}}", begin.Format(form),
		begin.Add(time.Hour).Format(form))
	before, shoot, found := strings.Cut(testdata(t, file), "kind: Shoot\n")
	if !found {
		t.Fatalf("%s has no Shoot", file)
	}
	manifest := before + "kind: Shoot\n" + strings.Replace(shoot, "\nspec:\n", "\nspec:\n  "+window+"\n", 1)
	if out, err := applyText(t, kubeconfigOf("garden"), manifest); err != nil {
		t.Fatalf("apply %s: %v\n%s", file, err, out)
	}
}

// patchShoot changes a Shoot with a JSON merge patch and waits until the change is rolled out.
func patchShoot(t *testing.T, name, patch string) {
	t.Helper()
	kubectl(t, kubeconfigOf("garden"), "-n", projectNS, "patch", "shoot", name, "--type=merge", "-p", patch)
	awaitSucceeded(t, name)
}
