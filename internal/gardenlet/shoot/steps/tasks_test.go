package steps

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

var shootTask = regexp.MustCompile(`corev1beta1\.ShootTask(\w)(\w+)`)

// The API warns of tasks that it does not list: the list has exactly those that a step carries out.
func TestTasksOfStepsAreKnown(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var carriedOut []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// ShootTaskDeployInfrastructure is deployInfrastructure.
		for _, match := range shootTask.FindAllSubmatch(source, -1) {
			carriedOut = append(carriedOut, strings.ToLower(string(match[1]))+string(match[2]))
		}
	}
	slices.Sort(carriedOut)
	if diff := cmp.Diff(slices.Compact(carriedOut), slices.Sorted(slices.Values(corev1beta1.ShootTasks()))); diff != "" {
		t.Errorf("tasks that steps carry out, and those that the API knows (-steps +API):\n%s", diff)
	}
}
