package components

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSelect(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  []string
		fails bool
	}{
		"a folder selects one version": {
			names: []string{"kubernetes-1.35.4"}, want: []string{"kubernetes-1.35.4"},
		},
		"a name selects all its versions": {
			names: []string{"kubernetes"},
			want:  []string{"kubernetes-1.36.3", "kubernetes-1.36.1", "kubernetes-1.35.4", "kubernetes-1.34.4"},
		},
		"name and version select one": {
			names: []string{"kubernetes@v1.34.4"}, want: []string{"kubernetes-1.34.4"},
		},
		"the v of a version may be left out": {
			names: []string{"kubernetes@1.34.4"}, want: []string{"kubernetes-1.34.4"},
		},
		"the order is that of the table, and repetitions are ignored": {
			names: []string{"runc", "etcd", "runc"}, want: []string{"etcd", "runc"},
		},
		"no names select nothing":                      {},
		"an unknown name is an error":                  {names: []string{"etcd", "docker"}, fails: true},
		"a version that cannot be built is an error":   {names: []string{"kubernetes@1.36.9"}, fails: true},
		"a version of another component has no effect": {names: []string{"etcd@v1.36.3"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(All(), tc.names...)
			if (err != nil) != tc.fails {
				t.Fatalf("Select() error = %v, want error: %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, folders(got)); diff != "" {
				t.Errorf("Select() mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Folder] || seen[c.Dir("")] {
			t.Errorf("%s shares its folder with another component", c)
		}
		seen[c.Folder], seen[c.Dir("")] = true, true
		if c.Version[0] != 'v' || len(c.Programs) == 0 {
			t.Errorf("%s has a version without v, or no programs", c)
		}
		if _, err := os.Stat(c.Folder); err != nil {
			t.Errorf("%s has no source folder: %v", c, err)
		}
	}
	if All()[0].OnDemand || All()[0].Version != "v"+KubernetesDefaultVersion {
		t.Error("the default Kubernetes version is not the first component")
	}
}
