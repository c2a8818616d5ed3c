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

// Stories are separate tests that share a landscape: each can be run alone by name, and creates and deletes its own
// Shoots. A story that finds no landscape, or one that an earlier story broke, brings up a new one; TestMain takes it
// down.

// keepLandscape keeps the landscape after the stories, so that the next run starts sooner.
const keepLandscape = "HORTUS_KEEP_LANDSCAPE"

var stories struct {
	sync.Mutex
	started bool // The stories have brought up the landscape.
	running int  // Stories that use the landscape now.
}

// recovery is how long a landscape may take to recover from the faults of the previous story.
const recovery = 8 * time.Minute

// story declares that a test needs a landscape, and which part of it.
func story(t *testing.T, uses part) {
	t.Helper()
	clusters := ownClusters
	if uses == firstSeed {
		clusters = clusters[:1]
	}
	if uses != everything {
		slots.take(t, rankOf(t, uses))
	}
	began := time.Now() // The test's own time has that of waiting for a slot in it.
	t.Cleanup(func() { t.Logf("the story took %s", time.Since(began).Round(time.Second)) })
	stories.Lock()
	defer stories.Unlock()
	// Another story may have stopped the second seed.
	if err := awaitLandscape(t, uses != firstSeed || stories.running == 0); err != nil {
		if stories.running > 0 {
			t.Fatalf("the landscape does not work, and other stories use it: %v", err)
		}
		t.Logf("a new landscape, since: %v", err)
		stories.started = true
		hortus(t, "down")
		hortus(t, "up")
	}
	if uses == everything { // No other story runs.
		landscapeObjects = cloudObjects(t)
	}
	stories.running++
	t.Cleanup(func() {
		if t.Failed() {
			keepState(t)
		}
		rightsAreObserved(t, clusters)
		stories.Lock()
		defer stories.Unlock()
		stories.running--
	})
}

// awaitLandscape waits until the landscape works, or only its garden. It does not wait for a landscape that does not
// exist.
func awaitLandscape(t *testing.T, whole bool) error {
	t.Helper()
	if _, err := os.Stat(filepath.Join(stateDir, "landscape")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	for {
		var out string
		var err error
		if whole {
			out, err = run(t, filepath.Join(repository, ".build", "hortus"), "status")
		}
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
	flag.Parse()
	// All stories wait for slots at the same time, so that those of a higher rank need not wait for others to begin.
	if err := flag.Set("test.parallel", "1000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
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

// newShoot creates a Shoot from an example under another name on the first seed, and waits until it has been created.
// It is deleted at the end of the story.
func newShoot(t *testing.T, file, name string) {
	t.Helper()
	applyShootOn(t, file, name, "local-1")
	awaitSucceeded(t, name)
}

// applyShoot creates a Shoot from testdata. Its maintenance time window is hours away, so that its versions do not
// change during the story.
func applyShoot(t *testing.T, file string) {
	t.Helper()
	window := fmt.Sprintf("maintenance: {%s}", laterWindow(time.Now()))
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
