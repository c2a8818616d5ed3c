//go:build landscape

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkTour runs the commands of the README's first five minutes. The example Shoot exists already; commands that watch
// or delete it are left out.
func checkTour(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, found := strings.Cut(string(readme), "\n## Five minutes\n")
	if !found {
		t.Fatal("the README has no section 'Five minutes'")
	}
	tour, _, _ = strings.Cut(tour, "\n## ")
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(filepath.Join(root, "demo.kubeconfig")) })
	typed := 0
	for i, block := range strings.Split(tour, "\n```\n") {
		if i%2 == 0 { // Text between the blocks.
			continue
		}
		for command := range strings.Lines(block) {
			command = strings.TrimSpace(command)
			if strings.HasSuffix(command, " -w") || strings.Contains(command, "delet") {
				continue
			}
			if out, err := typeIn(t, command); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
			typed++
		}
	}
	if typed < 12 {
		t.Errorf("only %d commands were found in the README's tour", typed)
	}
}

// typeIn runs commands in the root of the repository, with the environment that "hortus up" prints, and returns their
// output. It stops at the first failure.
func typeIn(t *testing.T, commands string) (string, error) {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-ec", commands)
	shell.Dir = root
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfigOf("garden"), fmt.Sprintf("PATH=%s:%s:%s",
		filepath.Join(root, ".build"), filepath.Dir(kubectlPath(t)), os.Getenv("PATH")),
		// Commands of Go find in the build cache what the unit tests have left there; without, they take minutes.
		"CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off")
	out, err := shell.CombinedOutput()
	return string(out), err
}
