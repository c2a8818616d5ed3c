package resourcemanager

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// TestFlagsOfDeployments: the command accepts the flags that gardenlets set.
func TestFlagsOfDeployments(t *testing.T) {
	for _, file := range []string{"shoot.yaml", "seed.yaml"} {
		content, err := os.ReadFile(filepath.Join("../component/resourcemanager/testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(string(content), "---\n")
		d := &appsv1.Deployment{} // The last document, see Render.
		if err := yaml.Unmarshal([]byte(documents[len(documents)-1]), d); err != nil {
			t.Fatal(err)
		}
		c := d.Spec.Template.Spec.Containers[0]
		line := slices.Concat(c.Command, c.Args)
		first := slices.IndexFunc(line, func(s string) bool { return strings.HasPrefix(s, "--") })
		if first < 0 {
			t.Fatalf("%s: no flags in %q", file, line)
		}
		if err := NewCommand().ParseFlags(line[first:]); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
