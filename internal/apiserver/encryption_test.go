package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEncryptionRevision(t *testing.T) {
	for name, tc := range map[string]struct{ stored, want, problem string }{
		"no revision requested":          {"", "", ""},
		"the first one":                  {"", "0", ""},
		"the one requested":              {"3", "3", ""},
		"a newer one":                    {"10", "9", ""},
		"an older one":                   {"2", "3", "has revision 2, not yet 3"},
		"none yet":                       {"", "1", "has revision 0, not yet 1"},
		"what is requested is no number": {"1", "x", "--encryption-revision: invalid value"},
		"what is stored is no number":    {"x", "1", "invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), NewOptions()
			o.EncryptionRevision, o.Recommended.Etcd.EncryptionProviderConfigFilepath = tc.want,
				filepath.Join(dir, "encryption.yaml")
			if tc.stored != "" {
				if err := os.WriteFile(filepath.Join(dir, "revision"), []byte(tc.stored), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := o.checkEncryptionRevision()
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %v, want %q", err, tc.problem)
			}
		})
	}
}
